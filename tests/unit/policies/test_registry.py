from __future__ import annotations

from importlib.metadata import EntryPoint

import pytest

from raytide.core import Controller, ControllerConfig
from raytide.errors import ConfigError
from raytide.policies import registry
from raytide.policies.fifo import Fifo
from raytide.policies.placement import Pack
from raytide.policies.registry import make_placer, make_policy, placer_names, policy_names


@pytest.mark.parametrize("name", policy_names())
def test_every_policy_can_be_made_and_has_the_name_it_is_chosen_by(name):
    policy = make_policy(name)
    assert policy.name == name
    assert policy is not make_policy(name), "it keeps what it learns"
    Controller(policy, make_placer("count"), config=ControllerConfig(instant=True)).tick(0.0, [])


@pytest.mark.parametrize("name", placer_names())
def test_every_placer_can_be_made(name):
    assert make_placer(name).name == name


def test_what_there_is():
    assert {"fifo", "first_fit", "srtf", "srgf", "las2d"} <= set(policy_names())
    assert set(placer_names()) == {"count", "pack", "spread", "most_free", "consolidated", "random"}


def test_dotted_paths():
    assert isinstance(make_policy("raytide.policies.fifo:Fifo"), Fifo)
    assert isinstance(make_placer("raytide.policies.placement:Pack"), Pack)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("fiffo", "there is no policy 'fiffo'. Did you mean fifo? Known: tide, fifo, first_fit"),
        ("zzz", "there is no policy 'zzz'. Known: tide, fifo"),
        ("", "there is no policy ''"),
        ("no.such.module:Class", "cannot be imported: No module named 'no'"),
        (":Class", "cannot be imported"),
        ("raytide.policies.fifo:Lifo", "has no attribute 'Lifo'"),
        ("raytide.core:Node", "missing 2 required positional arguments"),
        ("raytide.policies.placement:Count", "is no policy: it has no clock, decide, why_waiting"),
    ],
)
def test_what_is_no_policy_is_refused(name, said):
    with pytest.raises(ConfigError) as refused:
        make_policy(name)
    assert said in str(refused.value)


def test_an_unknown_placer_is_refused_with_those_there_are():
    with pytest.raises(
        ConfigError, match=r"Did you mean pack\? Known: count, pack, spread, most_free, consolidated, random"
    ):
        make_placer("pck")


def test_packages_add_policies_but_replace_none(monkeypatch: pytest.MonkeyPatch):
    path = "raytide.policies.first_fit:FirstFit"
    others = [EntryPoint(name, path, registry.GROUP) for name in ("theirs", "fifo")]
    monkeypatch.setattr(registry, "entry_points", lambda group: others if group == registry.GROUP else [])
    assert make_policy("theirs").name == "first_fit"
    assert make_policy("fifo").name == "fifo"
    assert policy_names()[-1] == "theirs"
    assert policy_names().count("fifo") == 1
