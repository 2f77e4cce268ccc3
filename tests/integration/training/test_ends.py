"""Beginnings and ends: what is refused before anything starts, and what is left when a job is over."""

from __future__ import annotations

import contextlib
import threading
from pathlib import Path
from typing import Any

import pytest
from ray.exceptions import RayError

from raytide.actors.client import list_jobs
from raytide.errors import ConfigError, RequestRefused
from raytide.train import ElasticTrainer, RunConfig, ScalingConfig
from support import loops
from support.cluster import SLOTS_PER_NODE, TestCluster
from support.ray_jobs import assert_as_fixed_size, held_slots, running, wait_size, wait_step

WHOLE_NODES = {"resources_per_worker": {"CPU": float(SLOTS_PER_NODE)}}


@pytest.mark.slow
def test_slots_are_free_when_the_result_is_there(cluster: TestCluster, tmp_path: Path) -> None:
    """Jobs follow each other without a wait: each takes the whole cluster."""
    for turn in range(2):
        folder = tmp_path / str(turn)
        folder.mkdir()
        with running(folder, start=2, workers=(2, 2), scaling=WHOLE_NODES) as job:
            wait_size(job, 2)
            assert_as_fixed_size(folder, job)
            assert held_slots(job.name) == []


def test_a_closed_job_leaves_nothing(cluster: TestCluster, tmp_path: Path) -> None:
    """Closed in the middle of a growth: no slot stays behind, and the next job finds all of them."""
    with running(tmp_path) as job:
        wait_step(job, 1)
        growth = threading.Thread(target=_grow_until_closed, args=(job,), daemon=True)
        growth.start()
    assert held_slots(job.name) == []
    assert job.name not in list_jobs()
    growth.join(30)
    assert not growth.is_alive(), "the request waits for a master that is gone"
    with running(tmp_path, start=2, workers=(2, 2), scaling=WHOLE_NODES) as following:
        wait_size(following, 2)


def _grow_until_closed(job: Any) -> None:
    with contextlib.suppress(RayError, RequestRefused):
        job.scale_out(2)


def trainer(folder: Path, loop: Any, **scaling: Any) -> ElasticTrainer:
    return ElasticTrainer(
        loop,
        train_loop_config={"folder": str(folder)},
        scaling_config=ScalingConfig(**scaling),
        run_config=RunConfig(name="refused", storage_path=str(folder), progress=False),
    )


def test_a_loop_that_cannot_travel_is_refused(cluster: TestCluster, tmp_path: Path) -> None:
    """The message names what cannot be pickled and what to do; no actor was started."""
    lock = threading.Lock()

    def loop(config: dict[str, Any]) -> None:
        with lock:
            loops.loop(config)

    with pytest.raises(ConfigError, match=r"ElasticTrainer\(the training loop\).*cannot pickle '_thread.lock'") as said:
        trainer(tmp_path, loop, num_workers=1).start()
    assert "inside the loop" in str(said.value)
    assert "refused" not in list_jobs()


def test_gpus_are_refused_where_there_are_none(cluster: TestCluster, tmp_path: Path) -> None:
    """At once, instead of a job that waits for ever."""
    with pytest.raises(ConfigError, match=r"ScalingConfig.use_gpu.*the cluster has 0 GPUs") as said:
        trainer(tmp_path, loops.loop, num_workers=(2, 4), use_gpu=True).start()
    assert "use_gpu=False" in str(said.value)
    assert "refused" not in list_jobs()


def test_more_replicas_than_slots_are_refused_with_what_is_free(cluster: TestCluster, tmp_path: Path) -> None:
    """The nodes and their free slots are in the message, and nothing stays reserved."""
    with pytest.raises(
        RequestRefused, match=r"needs 9 slots.*and 8 are free .*node-a: 4 of 4 free, node-b: 4 of 4 free"
    ):
        trainer(tmp_path, loops.loop, num_workers=(9, 9)).start()
    assert held_slots("refused") == []


def test_a_name_in_use_is_refused(cluster: TestCluster, tmp_path: Path) -> None:
    """Two jobs of one name would share checkpoints and journal."""
    with running(tmp_path) as job:
        again = trainer(tmp_path, loops.loop, num_workers=1)
        taken = ElasticTrainer(
            loops.loop,
            scaling_config=again.request().scaling,
            run_config=RunConfig(name=job.name, storage_path=str(tmp_path), progress=False),
        )
        with pytest.raises(RequestRefused, match="already running: choose another name"):
            taken.start()
        wait_step(job, 1)
