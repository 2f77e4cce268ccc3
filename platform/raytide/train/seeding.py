"""Random numbers of a step: a pure function of (seed, step, rank), so that a repeated step draws the same."""

from __future__ import annotations

import hashlib
import random

import numpy as np
import torch


def seed_step(seed: int, step: int, rank: int) -> None:
    """Seed Python's, NumPy's and torch's generators for one step of one rank."""
    digest = hashlib.blake2b(f"{seed}/{step}/{rank}".encode(), digest_size=16).digest()
    random.seed(digest)
    np.random.seed(int.from_bytes(digest[:4], "little"))  # noqa: NPY002 - the loop may use the global one
    torch.manual_seed(int.from_bytes(digest[4:12], "little", signed=True))
