"""Calls of actors, with a limit, whose errors come out as themselves."""

from __future__ import annotations

from typing import Any

from ray.exceptions import GetTimeoutError, RayTaskError

from raytide.actors.untyped import get
from raytide.errors import RaytideError, RequestRefused


class NoAnswer(RequestRefused):
    """An actor did not answer in time; whether it did what was asked is not known."""


def unwrap(answer: Any, timeout_s: float | None) -> Any:
    """The value of an actor call; raytide's own errors come out as themselves.

    Raises:
        NoAnswer: None within ``timeout_s``.
    """
    try:
        return get(answer, timeout_s)
    except GetTimeoutError as error:
        raise NoAnswer(f"no answer within {timeout_s} s") from error
    except RayTaskError as error:
        if isinstance(error.cause, RaytideError):
            raise error.cause from None
        raise
