"""A platform on the shared test cluster, and small jobs for it."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import ray

from raytide.actors.managed import Standing, elastic_submission
from raytide.actors.names import NAMESPACE
from raytide.actors.platform import Platform, start_platform
from raytide.actors.scheduler.info import JobInfo
from raytide.actors.scheduler.settings import PlatformSettings
from raytide.submission.access import hash_token, make_token
from raytide.train import ElasticTrainer, RunConfig, ScalingConfig
from support import loops, ray_jobs

SLOT = {"CPU": 1.0}
WAIT_S = 120.0
assert ray_jobs  # its import lets loops travel by value


@contextmanager
def running_platform(folder: Path, **settings: Any) -> Iterator[Platform]:
    """A platform with its administrator's token; every job and slot is gone afterwards."""
    token = settings.pop("token", None) or make_token()
    store = settings.pop("store", f"sqlite:///{folder}/platform.db")
    settings = {"policy": "tide", "slot": SLOT, **settings}
    start_platform(PlatformSettings(store=store, admin_sha256=hash_token(token), **settings))
    platform = Platform(token)
    try:
        yield platform
    except BaseException:
        print("\n".join(f"{info.job}: {line}" for info in platform.jobs(ended=20) for line in info.story))
        raise
    finally:
        platform.shut_down()
        wait_for(lambda: not leftovers(), "the platform's actors and groups to go")


def leftovers() -> list[str]:
    """Actors and reservations of a platform that is gone."""
    actors = [a["name"] for a in ray.util.list_named_actors(all_namespaces=True) if a["namespace"] == NAMESPACE]
    groups = ray.util.placement_group_table().values()
    return actors + [g["name"] for g in groups if g["name"].startswith("raytide") and g["state"] != "REMOVED"]


def submit(platform: Platform, folder: Path, name: str, workers: Any = 1, **options: Any) -> JobInfo:
    """Hand in a job that runs ``loops.loop`` until the test makes its file ``go``."""
    place = folder / name
    place.mkdir()
    config = {"folder": str(place), "sleep_s": 0.2, **options.pop("config", {})}
    run = RunConfig(name=name, storage_path=str(folder / "store"), trace_path=str(place / "trace"), progress=False)
    trainer = ElasticTrainer(
        loops.loop,
        train_loop_config=config,
        scaling_config=ScalingConfig(num_workers=workers, start_workers=options.pop("start", None)),
        run_config=run,
    )
    return platform.submit(*elastic_submission(trainer.request(), Standing(**options)))


def go(folder: Path, name: str) -> None:
    """Let a job finish."""
    (folder / name / "go").touch()


def wait_for(condition: Callable[[], Any], what: str, limit_s: float = WAIT_S) -> Any:
    """The first true value of a condition; asked ten times a second."""
    deadline_s = time.monotonic() + limit_s
    while not (found := condition()):
        assert time.monotonic() < deadline_s, f"waited {limit_s:.0f} s for {what}"
        time.sleep(0.1)
    return found


def until(platform: Platform, job: str, condition: Callable[[JobInfo], bool], what: str) -> JobInfo:
    """The job, as soon as a condition holds of it."""
    deadline_s = time.monotonic() + WAIT_S
    while True:
        info = platform.job(job)
        if condition(info):
            return info
        story = "\n".join(info.story)
        assert time.monotonic() < deadline_s, f"waited for {what}: {job} is {info.state}: {info.reason}\n{story}"
        time.sleep(0.05)


def trains(platform: Platform, job: str, count: int) -> JobInfo:
    """The job, as soon as so many replicas of it train."""
    step = platform.job(job).step
    return until(
        platform,
        job,
        lambda info: info.state == "running" and info.count == count and info.step > step,
        f"{count} replicas that train",
    )


def kill_scheduler(platform: Platform) -> None:
    """kill -9."""
    os.kill(platform.pid(), signal.SIGKILL)
