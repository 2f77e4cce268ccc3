from __future__ import annotations

import json

import pytest
import yaml
from jsonschema import Draft202012Validator
from typer.testing import CliRunner

from raytide.cli.main import app
from raytide.submission.schema import SCHEMAS
from unit.submission.test_parse_job import ELASTIC, RIGID, SPECS

TENANTS = {"tenants": [{"tenant": "a", "limit_gpus": 4, "token_sha256": "0" * 64, "admin": True}]}


def mistakes(what: str, document: object) -> list[str]:
    return [error.message for error in Draft202012Validator(SCHEMAS[what]()).iter_errors(document)]


@pytest.mark.parametrize("what", SCHEMAS)
def test_it_is_a_schema(what):
    Draft202012Validator.check_schema(SCHEMAS[what]())


@pytest.mark.parametrize("path", SPECS, ids=lambda path: path.stem)
def test_shipped_specs_satisfy_it(path):
    assert mistakes("job", yaml.safe_load(path.read_text())) == []


@pytest.mark.parametrize("line", ["gpus: 3", "retries: {nodes: 1}", "priority: high", "deadline: -1", "deadline: soon"])
def test_mistakes_are_seen_in_the_editor(line):
    assert mistakes("job", yaml.safe_load(ELASTIC.replace("1:8", "'1:8'") + line))


@pytest.mark.parametrize("line", ["deadline: 2h", "deadline: 60", "duration: 1h30m", "launch: driver"])
def test_what_is_read_satisfies_it(line):
    assert mistakes("job", yaml.safe_load(RIGID + line)) == []


def test_tenants():
    assert mistakes("tenants", TENANTS) == []
    assert mistakes("tenants", {"tenants": [{"tenant": "a", "token_sha256": "rt_x"}]})


@pytest.mark.parametrize("what", SCHEMAS)
@pytest.mark.parametrize("option", [[], ["--json"]])
def test_the_command_prints_it(what, option):
    done = CliRunner().invoke(app, ["schema", what, *option], env={"COLUMNS": "40"})
    assert json.loads(done.stdout) == SCHEMAS[what]()


def test_the_command_knows_two():
    done = CliRunner().invoke(app, ["schema", "cluster"])
    assert done.exit_code == 2
    assert "Known: job, tenants" in done.output
