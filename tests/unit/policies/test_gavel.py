from __future__ import annotations

import pytest

from raytide.core import Controller, ControllerConfig, LinearSpeed, Node, Tenant, TenantTree, TypedSpeed
from raytide.core.events import Finished, NodeDraining, Started, Submitted, Suspended, Timer
from raytide.policies.gavel import Gavel, fair_parts
from raytide.policies.placement import Count
from support.scheduling import job

SPEEDS = {
    "suited": TypedSpeed({"V100": LinearSpeed(10.0), "K80": LinearSpeed(1.0)}),
    "equal": TypedSpeed({"V100": LinearSpeed(1.0), "K80": LinearSpeed(1.0)}),
}


class Mixed:
    """A controller over nodes of two types."""

    def __init__(self, v100: int = 4, k80: int = 4, *, instant: bool = True, tenants: TenantTree | None = None) -> None:
        nodes = [Node("v", v100, "V100"), Node("k", k80, "K80")]
        config = ControllerConfig(instant=instant, speeds=SPEEDS)
        self.controller = Controller(Gavel(100.0), Count(), nodes, tenants or TenantTree(), config)

    def at(self, now: float, *events) -> dict[str, dict[str, int]]:
        """Tick as long as a wake at this instant is asked for; where everybody is then."""
        for _ in range(3):
            commands = self.controller.tick(now, list(events) or [Timer()])
            self.controller.validate()
            events = ()
            if not any(getattr(command, "at_s", None) == now for command in commands):
                break
        return {name: dict(placement.gpus) for name, placement in self.controller.table.cluster.held.items()}


def submitted(name: str, gpus: int = 4, model: str = "equal", **more) -> Submitted:
    return Submitted(job(name, gpus, model=model, **more))


def test_each_job_gets_the_type_that_suits_it():
    scene = Mixed()
    assert scene.at(0, submitted("b"), submitted("a", model="suited")) == {"a": {"v": 4}, "b": {"k": 4}}


def test_jobs_take_turns_round_by_round_and_stay_within_one():
    scene = Mixed(v100=4, k80=1)
    jobs = [submitted(name, model="suited") for name in ("a", "b")]
    seen = [scene.at(now, *(jobs if not now else ())) for now in (0, 50, 100, 150, 200, 300)]
    assert [list(held) for held in seen] == [["a"], ["a"], ["b"], ["b"], ["a"], ["b"]]


def test_two_jobs_swap_their_types_and_nobody_is_left_out():
    scene = Mixed()
    jobs = [submitted(name, model="suited") for name in ("a", "b")]
    seen = [scene.at(now, *(jobs if not now else ())) for now in range(0, 1000, 100)]
    assert all(held.keys() == {"a", "b"} for held in seen)
    fast = [next(name for name, where in held.items() if "v" in where) for held in seen]
    assert fast.count("a") == fast.count("b") == 5


def test_slots_pass_on_within_a_round_when_the_one_who_leaves_has_saved():
    scene = Mixed(v100=4, k80=1, instant=False)
    scene.at(0, submitted("a"), submitted("b"))
    assert list(scene.at(1, Started("a"))) == ["a"]
    assert list(scene.at(100)) == ["a"], "it saves"
    assert list(scene.at(103, Suspended("a"))) == ["b"]


def test_gangs_are_whole_on_one_type_and_gaps_are_filled():
    scene = Mixed(v100=3, k80=4)
    held = scene.at(0, submitted("gang", 4), submitted("small", 2, model="suited"), submitted("tiny", 1))
    assert held == {"gang": {"k": 4}, "small": {"v": 2}, "tiny": {"v": 1}}
    scene = Mixed(v100=3, k80=3)
    assert scene.at(0, submitted("gang", 4)) == {}
    assert scene.controller.explain("gang") == "had 0 rounds, the next begins at 100 s: needs 4 GPUs, 6 of 6 are free"


def test_what_becomes_free_in_a_round_stays_idle_until_the_next():
    scene = Mixed(v100=4, k80=1)
    scene.at(0, submitted("a"), submitted("b"))
    assert scene.at(50, Finished("a")) == {}
    assert list(scene.at(100)) == ["b"]


def test_limits_of_tenants_hold_and_who_may_not_be_preempted_stays():
    scene = Mixed(tenants=TenantTree([Tenant("t", limit_gpus=4)]))
    scene.at(0, submitted("kept", preemptible=False), submitted("mine"), submitted("other", tenant="u"))
    for now in (100, 200, 300):
        assert scene.at(now).keys() == {"kept", "other"}


def test_a_node_that_drains_is_left_at_the_next_round():
    scene = Mixed()
    scene.at(0, submitted("a", 2, model="suited"))
    scene.at(10, NodeDraining("v"))
    assert scene.at(100) == {"a": {"k": 2}}


def test_the_solution_is_fair_and_uses_what_there_is():
    speeds = {("a", "V100"): 10.0, ("a", "K80"): 1.0, ("b", "V100"): 1.0, ("b", "K80"): 1.0}
    parts = fair_parts(speeds, {"a": 1, "b": 1}, {"V100": 1, "K80": 1})
    assert parts == {("a", "V100"): pytest.approx(1.0), ("b", "K80"): pytest.approx(1.0)}
    alike = fair_parts({("a", "V100"): 2.0, ("b", "V100"): 5.0}, {"a": 1, "b": 1}, {"V100": 1})
    assert alike == {("a", "V100"): pytest.approx(0.5), ("b", "V100"): pytest.approx(0.5)}
    sizes = fair_parts({("a", "V100"): 1.0, ("b", "V100"): 1.0}, {"a": 4, "b": 2}, {"V100": 4})
    assert sizes == {("a", "V100"): pytest.approx(0.5), ("b", "V100"): pytest.approx(1.0)}, "equal GPU time"
    assert fair_parts({}, {}, {"V100": 1}) == {}
