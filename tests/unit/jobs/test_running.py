from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import cloudpickle
import pytest

from raytide.errors import ConfigError
from raytide.jobs import running
from raytide.jobs.running import format_metrics, load_job, main, parse_settings, parse_workers

SHIPPED = ["raytide.jobs.digits", "raytide.jobs.char_gpt", "raytide.jobs.emulated"]


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What trainers were made with; none of them trains."""
    calls: list[dict[str, Any]] = []

    def trainer(loop: Any, **settings: Any) -> SimpleNamespace:
        calls.append({"loop": loop, **settings})
        return SimpleNamespace(fit=lambda: SimpleNamespace(metrics={"accuracy": 0.5}))

    monkeypatch.setattr(running, "ElasticTrainer", trainer)
    return calls


def run_main(monkeypatch: pytest.MonkeyPatch, *args: str, module: str = "raytide.jobs.digits") -> int:
    monkeypatch.setattr(sys, "argv", [module, *args])
    with pytest.raises(SystemExit) as exit_info:
        main(module)
    return int(exit_info.value.code or 0)


@pytest.mark.parametrize("module", SHIPPED)
def test_shipped_jobs_keep_the_convention(module: str):
    job = load_job(module)
    assert job.config["epochs"] >= 1
    assert job.config is not sys.modules[module].CONFIG, "changing a job must not change the module"
    assert job.loop.__module__ == module


@pytest.mark.parametrize("module", SHIPPED)
def test_shipped_loops_travel_by_name(module: str):
    assert len(cloudpickle.dumps(load_job(module).loop)) < 200


def test_only_the_emulated_job_has_a_note():
    assert [bool(load_job(module).note) for module in SHIPPED] == [False, False, True]


def test_a_program_starts_a_trainer(monkeypatch, started, capsys: pytest.CaptureFixture[str]):
    assert run_main(monkeypatch, "--workers", "2:3", "--epochs", "7", "--set", "lr=1") == 0
    assert started[0]["scaling_config"].num_workers == (2, 3)
    assert started[0]["train_loop_config"]["epochs"] == 7
    assert repr(started[0]["train_loop_config"]["lr"]) == "1.0"
    assert "accuracy 0.5" in capsys.readouterr().out


def test_a_program_prints_its_note(monkeypatch, started, capsys: pytest.CaptureFixture[str]):
    assert run_main(monkeypatch, module="raytide.jobs.emulated") == 0
    assert "EMULATED" in capsys.readouterr().out


@pytest.mark.parametrize("args", [["--workers", "4:1"], ["--set", "learning_rate=1"], ["--epochs", "0"]])
def test_a_program_refuses_bad_input_before_it_starts(monkeypatch, started, args: list[str]):
    assert run_main(monkeypatch, *args) == 2
    assert started == []


@pytest.mark.parametrize(("text", "expected"), [("1:4", (1, 4)), ("3", (3, 3)), ("2:2", (2, 2))])
def test_workers_are_a_range(text: str, expected: tuple[int, int]):
    assert parse_workers(text) == expected


@pytest.mark.parametrize("text", ["", "0", "0:2", "3:1", "a", "1:2:3", "-1:2", "1.5"])
def test_senseless_ranges_are_refused(text: str):
    with pytest.raises(ConfigError, match="workers"):
        parse_workers(text)


def test_settings_are_literals_or_text():
    pairs = ["a=1", "b=0.5", "c=None", "d=hello", "e={1: 2.0}", "f=x=y"]
    assert parse_settings(pairs) == {"a": 1, "b": 0.5, "c": None, "d": "hello", "e": {1: 2.0}, "f": "x=y"}


@pytest.mark.parametrize("pair", ["epochs", "=3", ""])
def test_a_setting_without_key_or_value_is_refused(pair: str):
    with pytest.raises(ConfigError, match="KEY=VALUE"):
        parse_settings([pair])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"epoch": 3}, "Choose from epochs"),
        ({"epochs": "three"}, "Give a int"),
        ({"lr": True}, "Give a float"),
    ],
)
def test_unknown_keys_and_other_types_are_refused(settings: dict[str, Any], message: str):
    with pytest.raises(ConfigError, match=message):
        load_job("raytide.jobs.digits").with_settings(settings)


def test_a_setting_that_may_be_none_takes_any_type():
    job = load_job("raytide.jobs.digits").with_settings({"max_local_batch": 8})
    assert job.config["max_local_batch"] == 8


@pytest.mark.parametrize("module", ["raytide.jobs.absent", "no_such_package.job"])
def test_an_absent_module_is_refused(module: str):
    with pytest.raises(ConfigError, match="no module"):
        load_job(module)


def test_a_module_without_a_loop_is_refused():
    with pytest.raises(ConfigError, match="no function loop"):
        load_job("raytide.errors")


def test_a_missing_dependency_of_a_job_keeps_its_own_message(monkeypatch: pytest.MonkeyPatch):
    def fails(name: str) -> ModuleType:
        raise ModuleNotFoundError("No module named 'absent_dependency'", name="absent_dependency")

    monkeypatch.setattr(running.importlib, "import_module", fails)
    with pytest.raises(ModuleNotFoundError, match="absent_dependency"):
        load_job("my_package.job")


def test_metrics_fit_on_a_line():
    assert format_metrics({"loss": 0.123456, "accuracy": 1.0, "steps": 12}) == "accuracy 1  loss 0.1235  steps 12"
    assert format_metrics(None) == ""
