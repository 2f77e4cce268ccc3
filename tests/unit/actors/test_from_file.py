from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

from raytide.actors.from_file import job_submission, storage_root
from raytide.actors.imported_loop import ImportedLoop
from raytide.actors.scheduler.elastic_work import elastic_spec
from raytide.actors.scheduler.work import rigid_settings, terms_of
from raytide.errors import ConfigError
from raytide.state import Work
from raytide.submission import parse_job

FOLDER = Path("/home/ann/jobs")
ELASTIC = """
kind: elastic
loop: somebody.elses.package:loop
config: {epochs: 3}
workers: 1:8
start_workers: 2
tenant: vision
priority: 4
deadline: 2h
checkpoint_every: 10m
storage: results
retries: {user_errors: 2, lost_nodes: 5, platform_faults: 1}
runtime_env: {env_vars: {A: "1"}}
"""
RIGID = """
kind: rigid
entrypoint: python train.py
gpus: 4
launch: driver
storage: s3://bucket/runs
"""


def submitted(text: str, slot: dict[str, float]) -> tuple[Any, Work]:
    return job_submission(parse_job(text, "job.yaml"), "resnet", FOLDER, slot, 1000.0)


def test_an_elastic_job_for_the_scheduler():
    spec, work = submitted(ELASTIC, {"CPU": 1.0})
    assert (spec.job, spec.tenant, spec.priority, spec.requested) == ("resnet", "vision", 4, 2)
    assert spec.deadline_s == 1000.0 + 7200.0
    assert spec.model == "somebody.elses.package:loop"
    terms = terms_of(work)
    assert (terms.least, terms.most, terms.platform_faults) == (1, 8, 1)


def test_an_elastic_job_for_its_master():
    _, work = submitted(ELASTIC, {"CPU": 1.0})
    made = elastic_spec("resnet", work)
    assert (made.scaling.least, made.scaling.most, made.scaling.first, made.scaling.use_gpu) == (1, 8, 2, False)
    assert made.run.failure_config.max_failures == 5
    assert made.run.failure_config.max_user_errors == 2
    assert made.run.checkpoint_config.every_s == 600.0
    assert made.storage == "/home/ann/jobs/results/resnet"
    assert made.runtime_env == {"env_vars": {"A": "1"}}
    assert pickle.loads(made.config) == {"epochs": 3}
    assert pickle.loads(made.loop) == ImportedLoop("somebody.elses.package:loop")


def test_replicas_use_what_a_slot_of_the_platform_is():
    _, work = submitted(ELASTIC, {"GPU": 1.0, "CPU": 4.0})
    scaling = elastic_spec("resnet", work).scaling
    assert scaling.slot_resources == {"GPU": 1.0, "CPU": 4.0}
    assert scaling.group_backend == "nccl"


def test_a_rigid_job():
    spec, work = submitted(RIGID, {"GPU": 1.0})
    settings = rigid_settings(work)
    assert (spec.requested, spec.roles[0].least, spec.roles[0].most) == (4, 4, 4)
    assert (settings.entrypoint, settings.gpus, settings.launch) == ("python train.py", 4, "driver")
    assert settings.storage == "s3://bucket/runs/resnet"
    assert settings.resources == {"GPU": 1.0}
    assert terms_of(work).confined


def test_a_deadline_that_is_over_is_refused():
    with pytest.raises(ConfigError, match="is over"):
        submitted(ELASTIC.replace("2h", "1970-01-01T00:10:00Z"), {"CPU": 1.0})


def test_storage_is_the_same_from_every_folder():
    assert storage_root("", FOLDER) is None
    assert storage_root("s3://bucket/x", FOLDER) == "s3://bucket/x"
    assert storage_root("/nfs/x", FOLDER) == "/nfs/x"
    assert storage_root("~/x", FOLDER) == str(Path("~/x").expanduser())


def test_an_imported_loop_is_called_with_its_config():
    assert ImportedLoop("builtins:len")({"a": 1, "b": 2}) == 2
    with pytest.raises(ModuleNotFoundError):
        ImportedLoop("no.such.package:loop")({})
