"""What masters need to start their jobs, as it is kept in the state store; the scheduler reads its terms only."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any

from pydantic import TypeAdapter

from raytide.actors.gang.settings import RigidSettings
from raytide.state import Work

ELASTIC, RIGID = "elastic", "rigid"


@dataclass(frozen=True)
class Terms:
    """What the scheduler has to know of a job beside its spec.

    Attributes:
        least: Processes without which it does not run, as it was submitted.
        most: Processes beyond which it is given none, as it was submitted.
        confined: It places its own workers, on the nodes that it was given.
        platform_faults: How many faults of the platform it is retried after.
        lease_s: Without a sign of its owner for this long it is cancelled; 0 lets it go on alone.
    """

    least: int
    most: int
    confined: bool = False
    platform_faults: int = 3
    lease_s: float = 0.0


@cache
def adapter(kind: type) -> TypeAdapter[Any]:
    """Of a dataclass, to and from JSON."""
    return TypeAdapter(kind)


def sealed(kind: str, terms: Terms, settings: str, blobs: Mapping[str, bytes] | None = None) -> Work:
    """A job for the store.

    Args:
        kind: Of its master.
        terms: For the scheduler.
        settings: For the master, as JSON text.
        blobs: For the job's own processes.
    """
    text = json.dumps({"terms": asdict(terms), "master": json.loads(settings)})
    return Work(kind, text, blobs or {})


def terms_of(work: Work) -> Terms:
    """What the scheduler has to know of a job."""
    terms: Terms = adapter(Terms).validate_python(json.loads(work.settings)["terms"])
    return terms


def settings_of(work: Work) -> str:
    """What the master has to know of it, as JSON text."""
    return json.dumps(json.loads(work.settings)["master"])


def storage_of(work: Work) -> str:
    """Root of its checkpoints and logs."""
    return str(json.loads(work.settings)["master"].get("storage", ""))


def rigid_work(settings: RigidSettings, platform_faults: int = 3) -> Work:
    """A rigid job for the store."""
    terms = Terms(settings.gpus, settings.gpus, settings.launch == "driver", platform_faults)
    return sealed(RIGID, terms, adapter(RigidSettings).dump_json(settings).decode())


def rigid_settings(work: Work) -> RigidSettings:
    """A rigid job for its master."""
    settings: RigidSettings = adapter(RigidSettings).validate_json(settings_of(work))
    return settings
