"""JSON schemas of the files that people write, for their editors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any

from pydantic import Field, TypeAdapter

from raytide.submission.jobfile import ElasticJob, RigidJob
from raytide.submission.tenantfile import TenantsDocument

_DIALECT = "https://json-schema.org/draft/2020-12/schema"


def job_schema() -> dict[str, Any]:
    """The schema of a job file."""
    job: Any = Annotated[ElasticJob | RigidJob, Field(discriminator="kind")]
    return {"$schema": _DIALECT, "title": "raytide job", **TypeAdapter(job).json_schema()}


def tenants_schema() -> dict[str, Any]:
    """The schema of a file of tenants."""
    return {"$schema": _DIALECT, **TenantsDocument.model_json_schema(), "title": "raytide tenants"}


SCHEMAS: Mapping[str, Callable[[], dict[str, Any]]] = {"job": job_schema, "tenants": tenants_schema}
"""By what they are the schema of."""
