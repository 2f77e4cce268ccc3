"""Random numbers of a step: a pure function of (seed, step, rank), so that a repeated step draws the same."""

from __future__ import annotations

import hashlib

import torch

from raytide.train.data.sample_rng import seed_generators


def seed_step(seed: int, step: int, rank: int) -> None:
    """Seed Python's, NumPy's and torch's generators for one step of one rank.

    Not with ``torch.manual_seed``: for every accelerator that is not in use it queues a call with its stack, in every
    step, and never drops it: a millisecond and some kilobytes each time.
    """
    digest = hashlib.blake2b(f"{seed}/{step}/{rank}".encode(), digest_size=8).digest()
    key = int.from_bytes(digest, "little")
    seed_generators(key)
    if torch.cuda.is_initialized():
        torch.cuda.manual_seed_all(key)
