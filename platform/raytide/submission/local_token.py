"""Where a user's token lies on the machine it works on."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from raytide.errors import ConfigError
from raytide.submission.access import PREFIX

VARIABLE = "RAYTIDE_TOKEN"
_OTHERS = 0o077
_SMALL = 4096


def token_path(home: Path) -> Path:
    """The file of a user's token."""
    return home / ".raytide" / "token"


def local_token(environment: Mapping[str, str], home: Path) -> str:
    """The token of ``RAYTIDE_TOKEN``, or else of the user's file; empty if there is neither.

    Raises:
        ConfigError: It is none, or others can read the file.
    """
    if given := environment.get(VARIABLE, "").strip():
        return _checked(VARIABLE, given)
    path = token_path(home)
    text = _read(path).strip()
    return _checked(str(path), text) if text else ""


def save_token(token: str, home: Path) -> Path:
    """Write a user's token where :func:`local_token` finds it and nobody else does; returns the file.

    Raises:
        ConfigError: The file cannot be written.
    """
    path = token_path(home)
    fresh = path.with_name(f".token-{os.getpid()}")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Never readable by others, not even for an instant; and whole, whoever reads it meanwhile.
        with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            file.write(f"{token}\n")
        fresh.replace(path)
    except OSError as error:
        problem = f"it cannot be written: {error.strerror or error}"
        raise ConfigError(str(path), problem, f"Make the folder writable, or set {VARIABLE}") from error
    return path


def _read(path: Path) -> str:
    """The text of the file, empty if there is none."""
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            text = file.read(_SMALL)
    except FileNotFoundError:
        return ""
    except OSError as error:
        problem = f"it cannot be read: {error.strerror or error}"
        raise ConfigError(str(path), problem, f"Make it readable, or set {VARIABLE}") from error
    if mode & _OTHERS:
        problem = f"other users of this machine can reach it (its mode is {mode & 0o777:o})"
        raise ConfigError(str(path), problem, f"Run chmod 600 {path}, and ask for a new token")
    return text.decode(errors="replace")


def _checked(where: str, token: str) -> str:
    if not (token.startswith(PREFIX) and token.isascii() and token.isprintable() and " " not in token):
        # Not shown: it may be another secret.
        raise ConfigError(where, "it holds no token of raytide", f"A token begins with {PREFIX}: copy it again")
    return token
