from __future__ import annotations

import pytest

from raytide.core import JobSpec, Role
from raytide.errors import ConfigError
from raytide.submission import parse_job
from unit.submission.test_parse_job import ELASTIC, RIGID


def test_an_elastic_job_may_have_its_least_to_its_most_replicas():
    spec = parse_job(f"{ELASTIC}deadline: 2h\nwork: 40\npriority: 3", "j.yaml").to_spec("j", "vision", 100.0)
    role = Role("replica", 1, 8)
    assert spec == JobSpec("j", "vision", 100.0, (role,), 1, 3, work=40.0, deadline_s=7300.0, model="a.b:c")


def test_it_asks_for_the_workers_that_it_starts_with():
    assert parse_job(f"{ELASTIC}start_workers: 3", "j.yaml").to_spec("j", "t", 0.0).requested == 3


def test_a_rigid_job_has_all_its_gpus_or_none():
    text = f"{RIGID}duration: 3h\npreemptible: false\nmodel: bert"
    spec = parse_job(text, "j.yaml").to_spec("j", "t", 5.0)
    role = Role("replica", 4, 4)
    assert spec == JobSpec("j", "t", 5.0, (role,), 4, preemptible=False, duration_s=10_800.0, model="bert")


def test_an_instant_is_the_same_whenever_it_is_handed_in():
    job = parse_job(f"{RIGID}deadline: 1970-01-01T01:00:00+00:30", "j.yaml")
    assert job.to_spec("j", "t", 0.0).deadline_s == 1800.0
    with pytest.raises(ConfigError, match=r"deadline: .* is over"):
        job.to_spec("j", "t", 1800.0)
