"""Policies and placers by name: raytide's own, those of installed packages, and any class by its dotted path."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any

from raytide.core import Placer, Policy
from raytide.errors import ConfigError

GROUP = "raytide.policies"
"""Entry points of this group are policies of other packages."""

_POLICIES = {
    "tide": "raytide.policies.tide:Tide",
    "fifo": "raytide.policies.fifo:Fifo",
    "first_fit": "raytide.policies.first_fit:FirstFit",
    "srtf": "raytide.policies.shortest:Srtf",
    "srgf": "raytide.policies.shortest:Srgf",
    "las2d": "raytide.policies.las2d:Las2d",
    "gittins": "raytide.policies.gittins:Gittins",
    "tiresias": "raytide.policies.tiresias:Tiresias",
    "elastic_tiresias": "raytide.policies.elastic_tiresias:ElasticTiresias",
    "optimus": "raytide.policies.optimus:Optimus",
    "afs": "raytide.policies.afs:Afs",
    "ftf": "raytide.policies.ftf:Ftf",
    "gavel": "raytide.policies.gavel:Gavel",
    "eps": "raytide.policies.eps:Eps",
    "deadline": "raytide.policies.deadline:Deadline",
    "pollux": "raytide.policies.pollux:Pollux",
    "fair": "raytide.policies.fair:Fair",
    "easy_backfill": "raytide.policies.easy_backfill:EasyBackfill",
}
_PLACERS = {
    "count": "raytide.policies.placement:Count",
    "pack": "raytide.policies.placement:Pack",
    "spread": "raytide.policies.placement:Spread",
    "most_free": "raytide.policies.placement:MostFree",
    "consolidated": "raytide.policies.placement:Consolidated",
    "random": "raytide.policies.placement:Random",
}


def policy_names() -> tuple[str, ...]:
    """Policies that have a name: raytide's own, then those of installed packages."""
    return tuple(_policies())


def placer_names() -> tuple[str, ...]:
    """Placers that have a name."""
    return tuple(_PLACERS)


def make_policy(name: str) -> Policy:
    """A new policy; it keeps what it learns, so every simulation needs its own.

    Args:
        name: One of :func:`policy_names`, or ``package.module:Class`` of a class that needs no arguments.

    Raises:
        ConfigError: There is none of this name, or it is no policy.
    """
    policy: Policy = _make("policy", name, _policies(), ("name", "clock", "decide", "why_waiting"))
    return policy


def make_placer(name: str) -> Placer:
    """A new placer.

    Args:
        name: One of :func:`placer_names`, or ``package.module:Class`` of a class that needs no arguments.

    Raises:
        ConfigError: There is none of this name, or it is no placer.
    """
    placer: Placer = _make("placer", name, _PLACERS, ("name", "place"))
    return placer


def _policies() -> dict[str, str]:
    """Dotted paths by name; a package cannot replace what raytide ships."""
    others = {entry.name: entry.value for entry in sorted(entry_points(group=GROUP))}
    return _POLICIES | {name: path for name, path in others.items() if name not in _POLICIES}


def _make(kind: str, name: str, known: Mapping[str, str], needed: tuple[str, ...]) -> Any:
    path = known.get(name, name)
    if ":" not in path:
        raise _unknown(kind, name, known)
    made = _construct(kind, path)
    missing = [attribute for attribute in needed if not hasattr(made, attribute)]
    if missing:
        problem = f"{path} is no {kind}: it has no {', '.join(missing)}"
        raise ConfigError(kind, problem, f"Give it what raytide.core.{kind.capitalize()} describes")
    return made


def _construct(kind: str, path: str) -> Any:
    module, _, attribute = path.partition(":")
    try:
        return getattr(import_module(module), attribute)()
    except (ImportError, SyntaxError, ValueError) as error:
        raise ConfigError(kind, f"{module!r} cannot be imported: {error}", "Write package.module:Class") from error
    except AttributeError as error:
        raise ConfigError(kind, f"{path}: {error}", "Name a class of that module") from error
    except TypeError as error:
        raise ConfigError(kind, f"{path}: {error}", "Name a class that needs no arguments") from error


def _unknown(kind: str, name: str, known: Mapping[str, str]) -> ConfigError:
    near = get_close_matches(name, known, n=1)
    hint = f"Did you mean {near[0]}? " if near else ""
    remedy = f"{hint}Known: {', '.join(known)}; or package.module:Class"
    return ConfigError(kind, f"there is no {kind} {name!r}", remedy)
