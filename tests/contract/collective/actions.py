"""What the workers of the contract suite do."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import torch

from contract.collective.rig import State
from raytide.collective import CollectiveError, GroupSpec, ReduceOp, connect


def fill(state: State, value: float, dtype: torch.dtype = torch.float32, size: int = 5) -> torch.Tensor:
    return torch.full((size,), value, device=state.device).to(dtype)


def every_operation(state: State, name: str, dtype: torch.dtype) -> dict[str, Any]:
    """Each operation once; member r contributes r+1 (times the place, where there are several parts)."""
    group = state.groups[name]
    mine, size = group.rank + 1, group.world_size
    found: dict[str, Any] = {}
    for op in ReduceOp:
        tensor = fill(state, mine, dtype)
        group.all_reduce(tensor, op).wait()
        found[f"all_reduce {op.value}"] = tensor.tolist()
        for layout in ("apart", "adjacent"):
            inputs = parts(state, dtype, size, layout, [mine * (place + 1) for place in range(size)])
            output = fill(state, 0, dtype)
            group.reduce_scatter(output, inputs, op).wait()
            found[f"reduce_scatter {op.value} {layout}"] = output.tolist()
    for root in range(size):
        tensor = fill(state, mine, dtype)
        group.broadcast(tensor, root).wait()
        found[f"broadcast {root}"] = tensor.tolist()
    for layout in ("apart", "adjacent"):
        outputs = parts(state, dtype, size, layout, [0] * size)
        group.all_gather(outputs, fill(state, mine, dtype)).wait()
        found[f"all_gather {layout}"] = [output.tolist() for output in outputs]
    group.barrier()
    return found


def parts(state: State, dtype: torch.dtype, count: int, layout: str, values: list[int]) -> list[torch.Tensor]:
    """``count`` tensors with one value each: separate ones, or views of one buffer."""
    if layout == "apart":
        return [fill(state, value, dtype) for value in values]
    whole = torch.cat([fill(state, value, dtype) for value in values])
    return list(whole.chunk(count))


def reduce_once(state: State, name: str, value: float) -> float:
    tensor = fill(state, value)
    state.groups[name].all_reduce(tensor).wait()
    return float(tensor[0])


def reduce_in_all(state: State, names: list[str]) -> list[float]:
    """One operation in flight in each group before the first wait."""
    tensors = [fill(state, state.groups[name].rank + 1) for name in names]
    works = [state.groups[name].all_reduce(t) for name, t in zip(names, tensors, strict=True)]
    for work in works:
        work.wait()
    return [float(tensor[0]) for tensor in tensors]


def wait_backwards(state: State, name: str, count: int) -> list[float]:
    group = state.groups[name]
    tensors = [fill(state, index * (group.rank + 1), size=index + 1) for index in range(count)]
    works = [group.all_reduce(tensor) for tensor in tensors]
    for work in reversed(works):
        work.wait()
        assert work.done()
        work.wait()
    return [float(tensor[-1]) for tensor in tensors]


def failing(state: State, name: str, buffer: str = "", value: float = 1.0) -> tuple[CollectiveError, float]:
    """An all-reduce that must fail: the error, and the monotonic time when it was raised."""
    tensor = fill(state, value)
    if buffer:
        state.tensors[buffer] = tensor
    try:
        state.groups[name].all_reduce(tensor).wait()
    except CollectiveError as error:
        return error, time.monotonic()
    raise AssertionError("the operation succeeded")


def failing_while(
    state: State, name: str, delay_s: float, call: Callable[..., Any], *arguments: Any
) -> tuple[CollectiveError, float, Any]:
    """As ``failing``, while another thread calls: the error, seconds after the call, the call's result."""
    called: list[Any] = []

    def other() -> None:
        time.sleep(delay_s)
        called.append(time.monotonic())
        called.append(call(state, name, *arguments))

    thread = threading.Thread(target=other)
    thread.start()
    error, raised_s = failing(state, name)
    thread.join()
    return error, raised_s - called[0], called[1]


def abort(state: State, name: str, reason: str) -> None:
    state.groups[name].abort(reason)


def abort_telling(state: State, name: str, reason: str) -> str | None:
    """What the group says it is waiting for, just before the abort."""
    waiting_for = state.groups[name].waiting_for
    state.groups[name].abort(reason)
    return waiting_for


def wait_twice(state: State, name: str, first_s: float) -> tuple[CollectiveError, float]:
    """Waits too short for a late peer, then long enough."""
    tensor = fill(state, 1.0)
    work = state.groups[name].all_reduce(tensor)
    try:
        work.wait(first_s)
    except CollectiveError as error:
        work.wait()
        return error, float(tensor[0])
    raise AssertionError("the peer was not late")


def failing_connect(state: State, spec: GroupSpec, cancel_after_s: float | None) -> tuple[CollectiveError, float]:
    """A connect that must fail: the error, and seconds since its start (or since the cancellation)."""
    cancelled, begin = threading.Event(), time.monotonic()
    if cancel_after_s is not None:
        threading.Timer(cancel_after_s, cancelled.set).start()
    try:
        connect(spec, cancelled=cancelled)
    except CollectiveError as error:
        return error, time.monotonic() - begin - (cancel_after_s or 0.0)
    raise AssertionError("the connect succeeded")


def sleep(state: State, seconds: float) -> None:
    time.sleep(seconds)


def values(state: State, buffer: str) -> list[float]:
    return [float(value) for value in state.tensors[buffer]]


def reduce_into(state: State, name: str, buffer: str, value: float) -> float:
    """As ``reduce_once``; keeps the buffer."""
    state.tensors[buffer] = tensor = fill(state, value)
    state.groups[name].all_reduce(tensor).wait()
    return float(tensor[0])


def close(state: State, name: str) -> None:
    state.groups.pop(name).close()
