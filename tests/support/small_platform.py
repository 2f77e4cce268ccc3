"""A platform on whatever cluster is connected, and jobs for it that train until they are told to finish."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from raytide.actors.managed import Standing, elastic_submission
from raytide.actors.platform import Platform, start_platform
from raytide.actors.scheduler.info import JobInfo
from raytide.actors.scheduler.settings import PlatformSettings
from raytide.submission.access import hash_token, make_token
from raytide.train import ElasticTrainer, RunConfig, ScalingConfig
from support import loops, ray_jobs

WAIT_S = 90.0
assert ray_jobs  # its import lets loops travel by value


@contextmanager
def small_platform(folder: Path, slot: dict[str, float], **settings: Any) -> Iterator[Platform]:
    """A platform with its state in ``folder``; it is shut down at the end."""
    token = make_token()
    kept = {"store": f"sqlite:///{folder}/platform.db", "admin_sha256": hash_token(token), "policy": "tide"}
    start_platform(PlatformSettings(slot=slot, **{**kept, **settings}))
    platform = Platform(token)
    try:
        yield platform
    finally:
        platform.shut_down()


def hand_in(
    platform: Platform, folder: Path, name: str, workers: tuple[int, int], slot: dict[str, float], **standing: Any
) -> JobInfo:
    """Submit a job that trains until :func:`finish`."""
    place = folder / name
    place.mkdir()
    trainer = ElasticTrainer(
        loops.loop,
        train_loop_config={"folder": str(place), "sleep_s": 0.2},
        scaling_config=ScalingConfig(num_workers=workers, resources_per_worker=dict(slot)),
        run_config=RunConfig(
            name=name, storage_path=str(folder / "store"), trace_path=str(place / "trace"), progress=False
        ),
    )
    return platform.submit(*elastic_submission(trainer.request(), Standing(**standing)))


def finish(folder: Path, name: str) -> None:
    """Let a job train to its end without pauses."""
    (folder / name / "go").touch()


def wait_for(condition: Callable[[], Any], what: str, limit_s: float = WAIT_S) -> Any:
    """The first true value of a condition; asked ten times a second."""
    deadline_s = time.monotonic() + limit_s
    while not (found := condition()):
        assert time.monotonic() < deadline_s, f"waited {limit_s:.0f} s for {what}"
        time.sleep(0.1)
    return found


def wait_job(platform: Platform, job: str, condition: Callable[[JobInfo], bool], limit_s: float = WAIT_S) -> JobInfo:
    """A job, as soon as a condition holds of it; fails with its story."""
    deadline_s = time.monotonic() + limit_s
    while not condition(info := platform.job(job)):
        story = "\n".join(info.story)
        assert time.monotonic() < deadline_s, f"{job} is {info.state} after {limit_s:.0f} s: {info.reason}\n{story}"
        time.sleep(0.1)
    return info
