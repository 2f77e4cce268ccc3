"""What the ranks measure: free memory around a generation, bandwidth beside torch's own process groups."""

from __future__ import annotations

import gc
import os
import statistics
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
from torch.distributed import distributed_c10d

from contract.collective.rig import State
from raytide.collective import GroupSpec
from raytide.collective.store import open_store

TORCH_LIMIT_S = 60.0


def used_bytes(state: State) -> int:
    """Action: memory in use, of the whole device, or of this process in a dry run on the CPU."""
    gc.collect()
    if state.device.type == "cuda":
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        free, total = torch.cuda.mem_get_info(state.device)
        return total - free
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def reduce_bytes(state: State, name: str, size_bytes: int) -> None:
    """Action: makes a group allocate whatever it needs for large operations."""
    tensor = torch.ones(size_bytes // 4, device=state.device)
    state.groups[name].all_reduce(tensor).wait()


def bandwidth(state: State, spec: GroupSpec, sizes: list[int], pairs: int) -> list[dict[str, float]]:
    """Action: gigabytes all-reduced per second, by raytide and by torch in turns.

    Args:
        state: The worker.
        spec: A connected group of this worker; torch's group has the same members.
        sizes: Bytes of one operation.
        pairs: Measurements of each library per size; the medians are returned.
    """
    group, process_group = state.groups[spec.name], _torch_group(spec)
    found = []
    for size_bytes in sizes:
        tensors = [torch.zeros(size_bytes // 4, device=state.device) for _ in range(4)]
        ways = {
            "raytide": lambda tensors=tensors: [group.all_reduce(tensor) for tensor in tensors],
            "torch": lambda tensors=tensors: [process_group.allreduce([tensor]) for tensor in tensors],
        }
        seconds: dict[str, list[float]] = {name: [] for name in ways}
        for turn in range(pairs + 1):
            for name in sorted(ways, reverse=turn % 2 == 1):
                group.barrier()
                seconds[name].append(_timed(ways[name], state.device))
        row = {name: statistics.median(values[1:]) for name, values in seconds.items()}
        moved_gb = size_bytes * len(tensors) / 1e9
        found.append({"bytes": size_bytes, **{name: moved_gb / value for name, value in row.items()}})
    group.barrier()
    process_group.abort()
    return found


def _timed(start: Callable[[], list[Any]], device: torch.device) -> float:
    begin = time.perf_counter()
    for work in start():
        work.wait()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter() - begin


def _torch_group(spec: GroupSpec) -> Any:
    store: Any = open_store(spec.store, f"torch/{spec.name}", TORCH_LIMIT_S)
    library: Any = distributed_c10d
    limit = timedelta(seconds=TORCH_LIMIT_S)
    if spec.backend == "gloo":
        return library.ProcessGroupGloo(store, spec.rank, spec.world_size, limit)
    options = library.ProcessGroupNCCL.Options()
    options._timeout = limit
    return library.ProcessGroupNCCL(store, spec.rank, spec.world_size, options)
