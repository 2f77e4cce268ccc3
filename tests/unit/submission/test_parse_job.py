from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from raytide.errors import ConfigError
from raytide.submission import ElasticJob, RigidJob, parse_job

ELASTIC = "kind: elastic\nloop: a.b:c\nworkers: 1:8\n"
RIGID = "kind: rigid\nentrypoint: python x.py\ngpus: 4\n"
SPECS = sorted((Path(__file__).parents[3] / "jobs/specs").glob("*.yaml"))


@pytest.mark.parametrize(
    ("line", "field", "value"),
    [
        ("deadline: 1h30m", "deadline", 5400.0),
        ("deadline: 60", "deadline", 60.0),
        ("deadline: 2027-01-31T18:00:00+00:00", "deadline", datetime(2027, 1, 31, 18, tzinfo=UTC)),
        ("start_workers: 8", "start_workers", 8),
        ("checkpoint_every: 10m", "checkpoint_every", 600.0),
        ("config: {lr: 1e-3, layers: [1, {a: null}]}", "config", {"lr": 0.001, "layers": [1, {"a": None}]}),
        ("duration: null", "duration", None),
        ("name: no", "name", "no"),
    ],
)
def test_values_are_read(line, field, value):
    assert getattr(parse_job(ELASTIC + line, "j.yaml"), field) == value


@pytest.mark.parametrize(("text", "bounds"), [("1:8", (1, 8)), ("4", (4, 4)), ("[2, 3]", (2, 3)), ("10:59", (10, 59))])
def test_workers_are_a_range(text, bounds):
    assert parse_job(ELASTIC.replace("1:8", text), "j.yaml").workers == bounds


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "line 1: needs a mapping, and there is nothing. Known: kind"),
        ("kind: elastik", "line 1, field 'kind': 'elastik' is not known. Write elastic or rigid"),
        ("kind: elastic\nloop: a:b", "line 1, field 'workers': is missing"),
        (
            f"{ELASTIC}entrypoint: x",
            "line 4, field 'entrypoint': elastic jobs have none. Leave it out, or write kind: r",
        ),
        (f"{RIGID}workers: 1:2", "line 4, field 'workers': rigid jobs have none. Leave it out, or write kind: elastic"),
        (f"{ELASTIC}check_every: 1m", "line 4, field 'check_every': there is no such field. Did you mean checkpoint_e"),
        (ELASTIC.replace("a.b:c", "a.b"), "line 2, field 'loop': 'a.b' is no import path of a function"),
        (ELASTIC.replace("1:8", "8:1"), "line 3, field 'workers': the least, 8, is above the most, 1"),
        (ELASTIC.replace("1:8", "0:1"), "line 3, field 'workers': 0 allows no replica"),
        (ELASTIC.replace("1:8", "true"), "line 3, field 'workers': True is no range. Write 1:8, or one number"),
        (ELASTIC.replace("1:8", "[1, 2, 3]"), "line 3, field 'workers': [1, 2, 3] is no range"),
        (ELASTIC.replace("1:8", "1:200000"), "line 3, field 'workers': 200000 is above 100,000"),
        (f"{ELASTIC}start_workers: 9", "line 4, field 'start_workers': 9 is outside 1:8. Give a number inside workers"),
        (f"{ELASTIC}deadline: soon", "line 4, field 'deadline': 'soon' is no length of time"),
        (f"{ELASTIC}deadline: -3", "line 4, field 'deadline': -3 is no length of time"),
        (f"{ELASTIC}deadline: .inf", "line 4, field 'deadline': inf is no length of time"),
        (f"{ELASTIC}deadline: true", "line 4, field 'deadline': True is no length of time"),
        (f"{ELASTIC}deadline: 2027-13-01", "line 4, field 'deadline': '2027-13-01' is no instant"),
        (f"{ELASTIC}deadline: 2027-01-31T18:00:00", "line 4, field 'deadline': '2027-01-31T18:00:00' has no time zone"),
        (f"{ELASTIC}name: my job", "line 4, field 'name': 'my job' is no valid name. Use up to 63 letters"),
        (f"{ELASTIC}work: 0", "line 4, field 'work': 0 is not above 0. Give more than 0"),
        (f"{ELASTIC}config:\n  a: [.nan]", "line 5, field 'a': nan is no finite number"),
        (f"{ELASTIC}retries:\n  user_errors: -1", "line 5, field 'user_errors': -1 is below 0. Give at least 0"),
        (f"{ELASTIC}retries: {{nodes: 1}}", "line 4, field 'nodes': there is no such field. Did you mean lost_nodes?"),
        (f"{ELASTIC}runtime_env: {{pip: [a], uv: b}}", "line 4, field 'uv': pip and uv cannot be combined. Use one"),
        (f"{ELASTIC}runtime_env:\n  env_vars: {{A: 1}}", "line 5, field 'A': needs text, and 1 is a number. Write it"),
        (
            f"{RIGID}runtime_env: {{env_vars: {{RANK: '0'}}}}",
            "line 4, field 'runtime_env': env_vars sets RANK, which a",
        ),
        (f"{RIGID}deadline: 1h\nduration: 2h", "line 4, field 'deadline': 3600 s are shorter than its duration"),
        (f"{RIGID}launch: mpi", "line 4, field 'launch': 'mpi' is not known. Write gang or driver"),
        (RIGID.replace("python x.py", "' '"), "line 2, field 'entrypoint': the command is empty"),
        (RIGID.replace("4", "0"), "line 3, field 'gpus': 0 is below 1. Give at least 1"),
    ],
)
def test_a_mistake_is_told_with_line_field_and_remedy(text, said):
    with pytest.raises(ConfigError) as error:
        parse_job(text, "j.yaml")
    assert str(error.value).startswith(f"j.yaml, {said}")


def test_a_driver_sets_its_own_ranks():
    job = parse_job(f"{RIGID}launch: driver\nruntime_env: {{env_vars: {{RANK: '0'}}}}", "j.yaml")
    assert job.runtime_env.for_ray() == {"env_vars": {"RANK": "0"}}


@pytest.mark.parametrize("path", SPECS, ids=lambda path: path.stem)
def test_shipped_specs_are_read_and_travel_as_json(path):
    job = parse_job(path.read_text(), path.name)
    kind = RigidJob if job.kind == "rigid" else ElasticJob
    assert kind.model_validate_json(job.model_dump_json(exclude_unset=True)) == job


def test_the_specs_show_both_kinds_and_both_launches():
    jobs = [parse_job(path.read_text(), path.name) for path in SPECS]
    assert {getattr(job, "launch", "elastic") for job in jobs} == {"elastic", "gang", "driver"}
