from __future__ import annotations

from typing import Any

import pytest

from raytide.errors import ConfigError
from raytide.submission import parse_job
from raytide.submission.changes import changed

JOB = parse_job("kind: elastic\nloop: a.b:c\nworkers: 2:4\ndeadline: 1h\nruntime_env: {pip: [x]}\n", "job.yaml")
RIGID = parse_job("kind: rigid\nentrypoint: ls\ngpus: 2\n", "job.yaml")


def test_options_replace_fields():
    other = changed(JOB, {"workers": "1:8", "priority": 3, "deadline": "2h", "tenant": "vision"})
    assert (other.workers, other.priority, other.deadline, other.tenant) == ((1, 8), 3, 7200.0, "vision")
    assert other.runtime_env.for_ray() == {"pip": ["x"]}
    assert changed(JOB, {}) == JOB


@pytest.mark.parametrize(
    ("job", "changes", "message"),
    [
        (JOB, {"workers": "8:1"}, "--workers: the least, 8, is above the most"),
        (JOB, {"workers": "many"}, "--workers: 'many' is no range"),
        (JOB, {"deadline": "soon"}, "--deadline: 'soon' is no length of time"),
        (JOB, {"tenant": ""}, "--tenant"),
        (JOB, {"priority": 10**9}, "--priority"),
        (RIGID, {"workers": "1:2"}, "--workers: rigid jobs have none"),
    ],
)
def test_mistakes_name_the_option(job: Any, changes: dict[str, Any], message: str):
    with pytest.raises(ConfigError) as caught:
        changed(job, changes)
    assert message in str(caught.value)
