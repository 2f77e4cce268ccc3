"""The checks of NCCL groups on one GPU, as one program: contract, resize under load, memory, bandwidth.

    PYTHONPATH=tests:platform python -m gpu.check [--backend gloo] [--limit-s 270] [--only TEXT]

Several ranks share the GPU. ``--backend gloo`` runs the same program on the CPU. The last line is one JSON
object; the exit status is 0 if everything passed.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import traceback
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from contract.collective import actions, check_failures, check_membership, check_operations
from contract.collective.rig import Rig, why_not
from gpu import measure
from raytide.collective.nccl_open import nccl_version

MIB = 1 << 20
SIZES = {"nccl": [MIB, 16 * MIB, 64 * MIB, 256 * MIB], "gloo": [MIB, 8 * MIB]}
GENERATIONS = 3
LEAK_LIMIT_BYTES = 32 * MIB
SETTLE_S = 10.0


class Run:
    """The rig, the clock and what was found so far."""

    def __init__(self, backend: str, limit_s: float) -> None:
        self.backend = backend
        self.ends_s = time.monotonic() + limit_s
        self.rig = Rig(backend)
        self.found: dict[str, Any] = {
            "contract_passed": 0,
            "contract_failed": 0,
            "resize_pause_s": None,
            "memory_leak_bytes": None,
            "bandwidth_ratio": None,
            "torch_gbps": None,
            "raytide_gbps": None,
            "nccl_version": nccl_version() if backend == "nccl" else None,
            "gpu": torch.cuda.get_device_name(0) if backend == "nccl" else None,
            "backend": backend,
            "failures": [],
        }

    def attempt(self, name: str, check: Callable[[], object]) -> bool:
        """Runs one part; a failure is noted and leaves fresh workers to the next part."""
        begin = time.monotonic()
        if begin > self.ends_s:
            self.found["failures"].append(f"{name}: not run, the time was over")
            return False
        try:
            check()
        except Exception as error:  # noqa: BLE001 - one part must not hide the others
            traceback.print_exc()
            self.found["failures"].append(f"{name}: {type(error).__name__}: {error}"[:500])
            self.rig.close()
            self.rig = Rig(self.backend)
            return False
        print(f"passed {name} in {time.monotonic() - begin:.2f} s", flush=True)
        return True

    def contract(self, only: str) -> None:
        for check in (*check_operations.CHECKS, *check_failures.CHECKS, *check_membership.CHECKS):
            if only in check.__name__:
                passed = self.attempt(check.__name__, partial(self._check, check))
                self.found["contract_passed" if passed else "contract_failed"] += 1

    def _check(self, check: Callable[[Rig], None]) -> None:
        check(self.rig)

    def resize(self) -> None:
        """2 -> 4 -> 3 ranks; the old group reduces until the new one is connected on every member."""
        name, pauses = self.rig.connect([0, 1]), []
        for before, after in (([0, 1], [0, 1, 2, 3]), ([0, 1, 2, 3], [3, 0, 2])):
            name, seen = check_membership.change(self.rig, name, before, after)
            pauses += [pause_s for steps, pause_s in seen if steps > 0]
        self.rig.call([3, 0, 2], actions.close, name)
        self.found["resize_pause_s"] = round(max(pauses), 4)

    def memory(self) -> None:
        """What stays in use after generations were retired; the first one loads libraries and is no leak."""
        self._generation()
        time.sleep(1.0)
        before = self._used_bytes()
        for _ in range(GENERATIONS):
            self._generation()
        # Over gloo this is what the allocator of the C library keeps, and no measure of anything.
        until = time.monotonic() + (SETTLE_S if self.backend == "nccl" else 0.0)
        leak_bytes = self._used_bytes() - before
        while leak_bytes > 0 and time.monotonic() < until:
            time.sleep(0.2)
            leak_bytes = self._used_bytes() - before
        self.found["memory_leak_bytes"] = leak_bytes
        assert self.backend == "gloo" or leak_bytes <= LEAK_LIMIT_BYTES, f"{leak_bytes} bytes were not given back"

    def bandwidth(self) -> None:
        """raytide's all-reduce against torch's own, between two ranks, in turns within one run."""
        name = self.rig.connect([0, 1])
        specs = [(self.rig.spec(name, rank, 2), SIZES[self.backend], 5) for rank in range(2)]
        rows = self.rig.call([0, 1], measure.bandwidth, per_member=specs)[0]
        self.rig.call([0, 1], actions.close, name)
        self.found["bandwidth"] = rows
        largest = rows[-1]
        self.found["raytide_gbps"], self.found["torch_gbps"] = largest["raytide"], largest["torch"]
        self.found["bandwidth_ratio"] = round(largest["raytide"] / largest["torch"], 4)

    def _generation(self) -> None:
        name = self.rig.connect([0, 1, 2])
        self.rig.call([0, 1, 2], measure.reduce_bytes, name, 64 * MIB)
        self.rig.call([0, 1, 2], actions.close, name)

    def _used_bytes(self) -> int:
        # The device is shared, so one rank sees the use of all; processes are not.
        members = [0] if self.backend == "nccl" else [0, 1, 2]
        self.rig.call([0, 1, 2], measure.used_bytes)
        return sum(self.rig.call(members, measure.used_bytes))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--backend", choices=("gloo", "nccl"), default="nccl")
    parser.add_argument("--limit-s", type=float, default=270.0, help="no new part starts after this long")
    parser.add_argument("--only", default="", help="run only contract checks whose name contains this")
    options = parser.parse_args()
    reason = why_not(options.backend)
    if reason:
        print(json.dumps({"contract_passed": 0, "contract_failed": 0, "failures": [reason]}))
        return 1
    run = Run(options.backend, options.limit_s)
    # The measurements come first: they are few, and the contract may use up the time.
    for name in ("resize", "memory", "bandwidth"):
        run.attempt(name, getattr(run, name))
    run.contract(options.only)
    run.rig.close()
    print(json.dumps(run.found))
    return 1 if run.found["failures"] else 0


if __name__ == "__main__":
    sys.exit(main())
