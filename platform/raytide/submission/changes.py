"""Other values for fields of a job file, as the options of a command give them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from raytide.errors import ConfigError
from raytide.submission.jobfile import JobFile
from raytide.yamlfile.words import in_plain_words


def changed(job: JobFile, changes: Mapping[str, Any]) -> JobFile:
    """The job with other values for some of its fields.

    Args:
        job: What the file says.
        changes: Values by field, as they would stand in the file.

    Raises:
        ConfigError: A value is refused, or jobs of this kind have no such field.
    """
    kind = type(job)
    for name in changes:
        if name not in kind.model_fields:
            raise ConfigError(f"--{name}", f"{job.kind} jobs have none", "Leave it out, or change the file")
    try:
        return kind.model_validate(job.model_dump(exclude_unset=True) | dict(changes))
    except ValidationError as error:
        raise _mistake(error.errors()[0]) from error


def _mistake(found: Any) -> ConfigError:
    cause = found.get("ctx", {}).get("error")
    where = f"--{found['loc'][0]}" if found["loc"] else "options"
    if isinstance(cause, ConfigError):
        return ConfigError(where if found["loc"] else f"--{cause.field}", cause.problem, cause.remedy)
    return ConfigError(where, *in_plain_words(found, ""))
