"""Parts of a job file that have fields of their own."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field, JsonValue, model_validator

from raytide.errors import ConfigError

STRICT = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, frozen=True, use_attribute_docstrings=True)
"""Of everything in a job file: nothing unknown, nothing converted."""


class Retries(BaseModel):
    """How often a job is started again after each kind of failure, over its whole life."""

    model_config = STRICT

    user_errors: int = Field(default=0, ge=0, le=1_000_000)
    """Exceptions of its own code."""
    lost_nodes: int = Field(default=8, ge=0, le=1_000_000)
    """Processes and nodes that died."""
    platform_faults: int = Field(default=3, ge=0, le=1_000_000)
    """Mistakes of raytide or Ray."""


class RuntimeEnv(BaseModel):
    """The runtime environment of a job's processes; fields and meaning are Ray's."""

    model_config = STRICT

    working_dir: str | None = None
    """Folder or URL whose files every process finds in its working folder."""
    py_modules: list[str] = []
    """Folders, wheels or URLs that every process can import."""
    excludes: list[str] = []
    """What of working_dir and py_modules stays behind, in the syntax of .gitignore."""
    pip: list[str] | str | dict[str, JsonValue] | None = None
    """Packages, or a requirements file."""
    uv: list[str] | str | dict[str, JsonValue] | None = None
    """The same, installed by uv."""
    conda: str | dict[str, JsonValue] | None = None
    """The name of an environment, its file, or what would stand in it."""
    env_vars: dict[str, str] = {}
    """Environment variables; numbers in quotes."""
    py_executable: str | None = None
    """The command that starts Python."""
    image_uri: str | None = None
    """A container image."""
    config: dict[str, JsonValue] = {}
    """How Ray sets the environment up, such as setup_timeout_seconds."""

    @model_validator(mode="after")
    def _check(self) -> RuntimeEnv:
        installers = [name for name in ("pip", "uv", "conda") if getattr(self, name) is not None]
        if len(installers) > 1:
            problem = f"{' and '.join(installers)} cannot be combined"
            raise ConfigError(installers[-1], problem, "Use one of them")
        return self

    def for_ray(self) -> dict[str, Any]:
        """What Ray takes: the fields that were given."""
        return self.model_dump(exclude_unset=True)
