"""Bad settings are refused when they are made, with the field and the remedy."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from raytide.errors import ConfigError
from raytide.train import CheckpointConfig, ElasticTrainer, FailureConfig, RunConfig, ScalingConfig

BAD: list[tuple[Callable[[], object], str, str]] = [
    (lambda: ScalingConfig(num_workers=(3, 2)), "ScalingConfig.num_workers", "above the most"),
    (lambda: ScalingConfig(num_workers=0), "ScalingConfig.num_workers", "at least 1"),
    (lambda: ScalingConfig(num_workers=(0, 2)), "ScalingConfig.num_workers", "at least 1"),
    (lambda: ScalingConfig(num_workers=(1, 2, 3)), "ScalingConfig.num_workers", "no range"),  # type: ignore[arg-type] # wrong on purpose
    (lambda: ScalingConfig(num_workers=(1, True)), "ScalingConfig.num_workers", "no range"),
    (lambda: ScalingConfig(num_workers=(1, 2), start_workers=3), "ScalingConfig.start_workers", "outside 1..2"),
    (lambda: ScalingConfig(backend="mpi"), "ScalingConfig.backend", "'gloo' or 'nccl'"),
    (lambda: ScalingConfig(backend="nccl"), "ScalingConfig.backend", "use_gpu=True"),
    (lambda: ScalingConfig(standbys=-1), "ScalingConfig.standbys", "negative"),
    (lambda: ScalingConfig(virtual_shards=-1), "ScalingConfig.virtual_shards", "negative"),
    (lambda: ScalingConfig(resources_per_worker={"CPU": -1}), "resources_per_worker['CPU']", "negative"),
    (lambda: ScalingConfig(resources_per_worker={"GPU": 1}), "resources_per_worker['GPU']", "use_gpu=True"),
    (lambda: FailureConfig(max_failures=-1), "FailureConfig.max_failures", "negative"),
    (lambda: FailureConfig(suspect_s=0.1), "FailureConfig.suspect_s", "heartbeats"),
    (lambda: CheckpointConfig(num_to_keep=0), "CheckpointConfig.num_to_keep", "keep nothing"),
    (lambda: CheckpointConfig(every_s=-1), "CheckpointConfig.every_s", "negative"),
    (lambda: RunConfig(name="../up"), "RunConfig.name", "letters"),
    (lambda: ElasticTrainer("no function"), "ElasticTrainer", "function of one argument"),  # type: ignore[arg-type] # likewise
]


@pytest.mark.parametrize(("make", "field", "says"), BAD)
def test_refused(make: Callable[[], object], field: str, says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        make()
    assert field in str(caught.value)
    assert says in str(caught.value)


def test_one_number_is_a_fixed_size() -> None:
    scaling = ScalingConfig(num_workers=3)
    assert (scaling.least, scaling.most, scaling.first) == (3, 3, 3)


def test_a_range_starts_small_unless_told_otherwise() -> None:
    assert ScalingConfig(num_workers=(1, 8)).first == 1
    assert ScalingConfig(num_workers=(1, 8), start_workers=4).first == 4


@pytest.mark.parametrize(
    ("scaling", "resources", "backend"),
    [
        (ScalingConfig(), {"CPU": 1.0}, "gloo"),
        (ScalingConfig(use_gpu=True), {"GPU": 1.0}, "nccl"),
        (ScalingConfig(use_gpu=True, backend="gloo"), {"GPU": 1.0}, "gloo"),
        (ScalingConfig(resources_per_worker={"CPU": 2}), {"CPU": 2}, "gloo"),
    ],
)
def test_slots(scaling: ScalingConfig, resources: dict[str, float], backend: str) -> None:
    assert scaling.slot_resources == resources
    assert scaling.group_backend == backend


def test_storage_of_a_job() -> None:
    assert RunConfig(storage_path="s3://bucket/runs/").storage_for("job") == "s3://bucket/runs/job"
    assert RunConfig(storage_path="/data").storage_for("job") == "/data/job"
    assert RunConfig().storage_for("job").endswith("/raytide/job")


def test_unwritable_storage_is_refused_before_anything_starts(tmp_path_factory: pytest.TempPathFactory) -> None:
    blocked = tmp_path_factory.mktemp("blocked") / "file"
    blocked.write_text("not a folder")
    trainer = ElasticTrainer(lambda config: None, run_config=RunConfig(storage_path=str(blocked)))
    with pytest.raises(ConfigError, match="storage_path"):
        trainer.request()


def test_resume_from_latest_without_a_checkpoint(tmp_path_factory: pytest.TempPathFactory) -> None:
    run = RunConfig(name="new", storage_path=str(tmp_path_factory.mktemp("store")), resume_from="latest")
    with pytest.raises(ConfigError, match="no complete checkpoint"):
        ElasticTrainer(lambda config: None, run_config=run).request()
