from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from raytide.cli import doctor
from raytide.cli.main import app
from raytide.doctor import Facts
from raytide.doctor.facts import Disk, Gpus, Machine, Package, Port, RayCluster, Software

ROOM = 100 * 1024**3


def facts(**changes: object) -> Facts:
    software = Software("3.11.7", ">=3.11", True, (Package("ray", ">=2.60", "2.60.0", True),))
    machine = Machine(Disk("/s", free_bytes=ROOM), ROOM, ROOM, 65536, 0)
    given = {"software": software, "gpus": Gpus(torch="2.13.0"), "ports": (Port(6379, "the head", False, False),)}
    return Facts(**{**given, "machine": machine, "cluster": RayCluster(), **changes})


@pytest.fixture
def invoke(monkeypatch):
    def run(found: Facts, *words: str):
        monkeypatch.setattr(doctor, "gather", lambda storage: found)
        return CliRunner().invoke(app, ["doctor", *words], env={"COLUMNS": "80"})

    return run


def test_a_sound_machine_is_all_ok(invoke):
    done = invoke(facts(), "--json")
    document = json.loads(done.stdout)
    assert done.exit_code == 0
    assert (document["warn"], document["bad"], document["ok"]) == (0, 0, len(document["findings"]))


def test_a_warning_is_no_failure(invoke):
    done = invoke(facts(ports=(Port(6379, "the head", True, False),)))
    assert done.exit_code == 0
    assert "warn  port 6379" in done.stdout
    assert "ss -ltnp" in done.stdout


def test_what_makes_jobs_fail_fails_the_command(invoke):
    broken = facts(gpus=Gpus(torch_error="no libc10"))
    assert invoke(broken).exit_code == 1
    done = invoke(broken, "--json")
    assert done.exit_code == 1
    (bad,) = [found for found in json.loads(done.stdout)["findings"] if found["level"] == "bad"]
    assert (bad["what"], bool(bad["remedy"])) == ("torch", True)
