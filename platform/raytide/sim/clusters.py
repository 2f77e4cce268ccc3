"""Clusters as people write them: ``16x8``, or ``4x8:A100,2x4:T4``."""

from __future__ import annotations

import re

from raytide.core import Node
from raytide.errors import ConfigError

MOST_NODES = 100_000
_REMEDY = "Write NODESxGPUS such as 16x8, with types 4x8:A100,2x4:T4"
_PART = re.compile(r"([0-9]+)x([0-9]+)(?::([A-Za-z0-9._-]+))?")


def parse_cluster(text: str) -> list[Node]:
    """Nodes ``n0``, ``n1`` and so on.

    Args:
        text: Parts ``NODESxGPUS`` with commas between them, each with the type of its GPUs after a colon if there
            are several.

    Raises:
        ConfigError: It means nothing, or a cluster without GPUs or beyond any size.
    """
    sizes: list[tuple[int, str]] = []
    for part in text.split(","):
        count, gpus, kind = _parse_part(text, part.strip())
        if len(sizes) + count > MOST_NODES:
            raise ConfigError("cluster", f"{text!r} has more than {MOST_NODES:,} nodes", "Give fewer")
        sizes.extend([(gpus, kind)] * count)
    return [Node(f"n{number}", gpus, kind) for number, (gpus, kind) in enumerate(sizes)]


def _parse_part(text: str, part: str) -> tuple[int, int, str]:
    found = _PART.fullmatch(part)
    if found is None:
        raise ConfigError("cluster", f"{part!r} in {text!r} is no group of nodes", _REMEDY)
    count, gpus, kind = int(found[1]), int(found[2]), found[3] or "gpu"
    if not count or not gpus:
        raise ConfigError("cluster", f"{part!r} in {text!r} has no GPUs", _REMEDY)
    return count, gpus, kind
