"""Whatever stands in a job file, it is read or refused with its line; nothing else happens."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from raytide.core import JobSpec
from raytide.errors import ConfigError
from raytide.submission import ElasticJob, JobFile, RigidJob, parse_job

SPECS = [path.read_text() for path in sorted((Path(__file__).parents[3] / "jobs/specs").glob("*.yaml"))]
FIELDS = sorted({*ElasticJob.model_fields, *RigidJob.model_fields})

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=8),
    st.binary(max_size=4),
    st.dates(),
    st.datetimes(timezones=st.timezones()),
    st.sampled_from(["elastic", "rigid", "1:8", "2h", "a.b:c", "python x.py", "9999-12-31T23:59:59-23:59", "gang"]),
)
keys = st.one_of(st.sampled_from(FIELDS), scalars)
documents = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=4), max_leaves=10
)
jobs = st.sampled_from(SPECS).map(yaml.safe_load)


def outcome(text: str) -> JobFile | None:
    """The job; None if it was refused as it should be."""
    try:
        job = parse_job(text, "j.yaml")
    except ConfigError as error:
        check_refusal(error)
        return None
    assert type(job).model_validate_json(job.model_dump_json(exclude_unset=True)) == job
    with suppress(ConfigError):  # its deadline is over
        assert isinstance(job.to_spec("j", "t", 1e9), JobSpec)
    return job


def check_refusal(error: ConfigError) -> None:
    assert re.match(r"j\.yaml, line [1-9]", error.field)
    assert error.problem
    assert error.remedy
    assert len(str(error)) < 1000


@given(document=documents)
@settings(max_examples=300, deadline=5000)
def test_any_document(document):
    outcome(yaml.safe_dump(document, allow_unicode=True))


@given(job=jobs, field=st.sampled_from(FIELDS), value=documents)
@settings(max_examples=300, deadline=5000)
@example(job=yaml.safe_load(SPECS[0]), field="deadline", value=10**400)
@example(job=yaml.safe_load(SPECS[0]), field="config", value={"a": 10**400})
@example(job=yaml.safe_load(SPECS[0]), field="priority", value=10**400)
def test_a_good_job_with_another_value_in_one_field(job, field, value):
    outcome(yaml.safe_dump({**job, field: value}, allow_unicode=True))


@given(
    text=st.sampled_from(SPECS),
    at=st.floats(0, 1),
    cut=st.integers(0, 20),
    put=st.one_of(st.text(max_size=5), st.sampled_from([*"{}[]:&*!|>'\"%@`#-?,\n\t\x00\\", "<<: *a", "&a", "*a"])),
)
@settings(max_examples=300, deadline=5000)
def test_a_good_file_with_other_characters_somewhere(text, at, cut, put):
    start = int(at * len(text))
    outcome(text[:start] + put + text[start + cut :])


@given(text=st.text())
@settings(max_examples=200, deadline=5000)
def test_any_text(text):
    outcome(text)


@pytest.mark.parametrize("text", SPECS)
def test_what_is_mutated_is_good(text):
    assert outcome(text) is not None
