"""Jobs on the shared test cluster."""

from __future__ import annotations

import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import ray
import torch
from ray import cloudpickle

from raytide.actors.client import RayJobHandle
from raytide.actors.views import JobView
from raytide.cli.traces import check_epochs, read_steps
from raytide.train import CheckpointConfig, ElasticTrainer, FailureConfig, RunConfig, ScalingConfig
from support import loops

# Replicas cannot import the test tree: its loops travel by value.
cloudpickle.register_pickle_by_value(loops)

WAIT_S = 90.0


@contextmanager
def running(
    folder: Path,
    *,
    start: int = 1,
    workers: tuple[int, int] = (1, 4),
    loop: Callable[[dict[str, Any]], object] = loops.loop,
    config: dict[str, Any] | None = None,
    failures: FailureConfig | None = None,
    checkpoints: CheckpointConfig | None = None,
    scaling: dict[str, Any] | None = None,
    resume_from: str | None = None,
) -> Iterator[RayJobHandle]:
    """A job that runs ``loop`` and is ended afterwards, whatever happened."""
    trainer = ElasticTrainer(
        loop,
        train_loop_config={"folder": str(folder), **(config or {})},
        scaling_config=ScalingConfig(num_workers=workers, start_workers=start, **(scaling or {})),
        run_config=RunConfig(
            name=f"test-{uuid.uuid4().hex[:8]}",
            storage_path=str(folder / "store"),
            trace_path=str(folder / "trace"),
            progress=False,
            resume_from=resume_from,
            failure_config=failures or FailureConfig(),
            checkpoint_config=checkpoints or CheckpointConfig(),
        ),
    )
    handle = trainer.start()
    assert isinstance(handle, RayJobHandle)
    try:
        yield handle
    except BaseException:
        print(story(handle), file=sys.stderr)
        raise
    finally:
        handle.close()
        assert held_slots(handle.name) == [], "slots that nobody will give back"


def held_slots(job: str) -> list[str]:
    """Names of the placement groups that ``job`` holds."""
    groups = ray.util.placement_group_table().values()
    return [g["name"] for g in groups if g["name"].startswith(f"raytide:{job}:") and g["state"] != "REMOVED"]


def wait(job: RayJobHandle, condition: Callable[[JobView], bool], what: str, timeout_s: float = WAIT_S) -> JobView:
    """Poll the job until ``condition`` holds; fails with its story."""
    deadline_s = time.monotonic() + timeout_s
    while True:
        view = job.view()
        if condition(view):
            return view
        if view.ended or time.monotonic() > deadline_s:
            raise AssertionError(f"waited for {what}: {story(job)}")
        time.sleep(0.02)


def wait_step(job: RayJobHandle, step: int) -> JobView:
    """Wait until the job has applied ``step`` steps."""
    return wait(job, lambda view: view.step >= step and view.phase == "running", f"step {step}")


def wait_size(job: RayJobHandle, size: int) -> JobView:
    """Wait until ``size`` replicas train."""
    return wait(job, lambda view: view.world_size == size and view.phase == "running", f"{size} replicas")


def story(job: RayJobHandle) -> str:
    """Everything known of a job, for a failed test."""
    view = job.view()
    members = "\n".join(f"  {m}" for m in view.members)
    events = "\n".join(f"  {e.kind}: {e.text}" for e in view.events)
    return f"job {view.name} {view.phase} at step {view.step}: {view.error}\n{members}\n{events}"


def assert_as_fixed_size(folder: Path, job: RayJobHandle, epoch_count: int = loops.EPOCHS) -> None:
    """The job ends with the weights of plain PyTorch on every rank, each sample used once in every epoch."""
    (folder / "go").touch()
    result = job.result(timeout_s=WAIT_S)
    assert result.status == "succeeded"
    expected = loops.reference(epoch_count)
    weights = sorted(folder.glob("rank*.pt"))
    assert weights, "no rank saved its weights"
    for path in weights:
        found = torch.load(path)
        for name, tensor in expected.items():
            difference = ((found[name] - tensor).norm() / tensor.norm()).item()
            assert difference < 1e-9, f"{path.name} {name}: {difference}"
    assert_samples_once(folder, epoch_count)


def assert_samples_once(folder: Path, epoch_count: int = loops.EPOCHS) -> None:
    """The traces prove that every epoch used every sample exactly once."""
    epochs = check_epochs(read_steps(folder / "trace"), loops.SAMPLES)
    assert [e.epoch for e in epochs] == list(range(epoch_count))
    assert all(e.is_exact for e in epochs), epochs


def fired(folder: Path, kind: str) -> bool:
    """Whether the planned fault happened."""
    return any(folder.glob(f"fault-{kind}-*"))
