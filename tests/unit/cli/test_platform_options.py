from __future__ import annotations

import io
import json
import os
from pathlib import Path

import pytest
from rich.console import Console

from raytide.cli.cluster import match_authentication
from raytide.cli.head import Head, known_head
from raytide.cli.requests import plan_bounds
from raytide.cli.submit import made_up_name, read_job
from raytide.cli.tenants import parse_limit, tenants_table
from raytide.cli.up import default_slot, parse_slot, prepared_store
from raytide.core import Tenant
from raytide.errors import ConfigError
from raytide.state import StoredTenant

JOB = "kind: elastic\nloop: a.b:c\nworkers: 2:4\n"


def test_slots():
    assert parse_slot(["GPU=1", "CPU=4"]) == {"GPU": 1.0, "CPU": 4.0}
    assert default_slot({"GPU": 2.0, "CPU": 8.0}) == {"GPU": 1.0}
    assert default_slot({"CPU": 8.0}) == {"CPU": 1.0}
    with pytest.raises(ConfigError, match="--slot"):
        parse_slot(["GPU"])


def test_the_folder_of_a_store_is_made(tmp_path: Path):
    url = prepared_store(f"sqlite:///{tmp_path}/a/b/platform.db")
    assert url == f"sqlite:///{tmp_path}/a/b/platform.db"
    assert (tmp_path / "a" / "b").is_dir()
    assert prepared_store("postgresql://host/x") == "postgresql://host/x"
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="--store"):
        prepared_store(f"sqlite:///{tmp_path}/file/platform.db")


@pytest.mark.parametrize(
    ("word", "count", "bounds"), [("1:8", 2, (1, 8)), ("3", 2, (3, 3)), ("+2", 1, (3, 3)), ("-1", 3, (2, 2))]
)
def test_bounds(word: str, count: int, bounds: tuple[int, int]):
    assert plan_bounds(word, count, None) == bounds


@pytest.mark.parametrize(("word", "count", "chosen"), [("-2", 2, None), ("+1", 1, "0,1"), ("0:3", 1, None)])
def test_senseless_bounds_are_refused(word: str, count: int, chosen: str | None):
    with pytest.raises(ConfigError, match="scale"):
        plan_bounds(word, count, chosen)


def test_options_go_before_the_file(tmp_path: Path):
    path = tmp_path / "my job.yaml"
    path.write_text(JOB)
    assert read_job(path, {"workers": "1:2"}).workers == (1, 2)
    path.write_text(JOB + "start_workers: 3\n")
    assert read_job(path, {"workers": 1}).start_workers is None
    assert made_up_name(path).startswith("my-job-")
    with pytest.raises(ConfigError, match="cannot be read"):
        read_job(tmp_path / "none.yaml", {})
    path.write_text(JOB + "wrokers: 2\n")
    with pytest.raises(ConfigError, match=r"my job\.yaml, line 4, field 'wrokers'"):
        read_job(path, {})


def test_tenants_are_shown_below_their_parents():
    stored = [
        StoredTenant(Tenant("vision", "research", guaranteed_gpus=2)),
        StoredTenant(Tenant("admin"), admin=True),
        StoredTenant(Tenant("research", limit_gpus=8)),
        StoredTenant(Tenant("lost", "nobody")),
    ]
    console = Console(file=io.StringIO(), width=100)
    console.print(tenants_table(stored, {"research": 5}))
    shown = [line.rstrip() for line in console.file.getvalue().splitlines()[2:]]
    assert shown[0].endswith("administrator")
    assert [line.split("  ")[0] or line[:8] for line in shown] == ["admin", "research", "  vision", "lost"]
    assert "5" in shown[1]


def test_limits():
    assert parse_limit(None) == {}
    assert parse_limit("none") == {"limit_gpus": None}
    assert parse_limit("8") == {"limit_gpus": 8}
    with pytest.raises(ConfigError, match="--limit"):
        parse_limit("many")


def test_a_token_of_ray_is_sent_unless_somebody_decided_otherwise(tmp_path: Path):
    environment: dict[str, str] = {}
    match_authentication(environment, tmp_path)
    assert environment == {}
    (tmp_path / ".ray").mkdir()
    (tmp_path / ".ray" / "auth_token").write_text("x")
    match_authentication(environment, tmp_path)
    assert environment == {"RAY_AUTH_MODE": "token"}
    chosen = {"RAY_AUTH_MODE": "disabled"}
    match_authentication(chosen, tmp_path)
    assert chosen == {"RAY_AUTH_MODE": "disabled"}


def test_a_head_that_is_gone_is_not_known(tmp_path: Path):
    assert known_head(tmp_path) is None
    (tmp_path / ".raytide").mkdir()
    record = tmp_path / ".raytide" / "head.json"
    record.write_text(json.dumps({"pid": os.getpid(), "address": "here:1", "log": "x"}))
    assert known_head(tmp_path) is None, "the process of that id is no head"
    record.write_text("{}")
    assert known_head(tmp_path) is None
    assert not Head(2**22 - 1, "here:1", "x").is_alive
