from __future__ import annotations

import dataclasses
import math
import pickle
from typing import Any

import pytest

from raytide.errors import ConfigError
from raytide.sim.traces import TraceJob


def job(**changes: Any) -> TraceJob:
    return TraceJob(**{"job_id": "a", "tenant": "t", "submit_s": 5.0, "gpus": 2, "duration_s": 10.0, **changes})


def test_a_job_is_a_value():
    assert job() == job()
    assert len({job(), job(), job(gpus=3)}) == 2
    assert pickle.loads(pickle.dumps(job())) == job()
    with pytest.raises(dataclasses.FrozenInstanceError):
        job().gpus = 3  # type: ignore[misc] # that it fails is the test


def test_its_gpu_time_is_known_if_its_duration_is():
    assert job().gpu_s == 20.0
    assert job(duration_s=None).gpu_s is None


@pytest.mark.parametrize(
    ("field", "value", "problem"),
    [
        ("job_id", "", "is empty"),
        ("job_id", " a", "blanks around it"),
        ("tenant", "", "is empty"),
        ("model", "bert ", "blanks around it"),
        ("submit_s", -1.0, "-1.0 is negative"),
        ("submit_s", math.nan, "nan is not finite"),
        ("submit_s", math.inf, "inf is not finite"),
        ("gpus", 0, "0 is not a whole number from 1 up"),
        ("gpus", 1.5, "1.5 is not a whole number"),
        ("duration_s", 0.0, "0.0 is not above 0"),
        ("duration_s", -3.0, "-3.0 is not above 0"),
        ("duration_s", math.nan, "nan is not finite"),
        ("duration_s", math.inf, "inf is not finite"),
        ("batch_size", -1, "-1 is not a whole number from 0 up"),
        ("iterations", 0.0, "0.0 is not above 0"),
        ("deadline_s", math.inf, "inf is not finite"),
        ("deadline_s", 4.0, "4 is before the submission at 5"),
    ],
)
def test_refuses(field: str, value: object, problem: str):
    with pytest.raises(ConfigError, match=problem) as caught:
        job(**{field: value})
    assert caught.value.field == f"TraceJob.{field}"
    assert caught.value.remedy
