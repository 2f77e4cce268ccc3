"""What the cluster would have to grow by, and the groups that say so to Ray."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from raytide.actors.scheduler.autoscaling import HOLD_S, SETTLE_S, Asked, Autoscaling, group_name
from raytide.actors.scheduler.demand import PATIENCE_S, Demand, Needs, demand, needs, seated
from raytide.core import Controller, ControllerConfig, JobSpec, Node, Tenant, TenantTree
from raytide.core.events import NodeDraining, Submitted, SuspendRequested
from raytide.core.model import Role
from raytide.policies.registry import make_placer, make_policy

LATER = 100.0


def controller(nodes: Sequence[int], *events: Any, tenants: TenantTree | None = None) -> Controller:
    """Nodes ``n0``, ``n1`` … with so many slots, under the policy that never shrinks anybody."""
    found = Controller(
        make_policy("fifo"),
        make_placer("pack"),
        [Node(f"n{number}", slots) for number, slots in enumerate(nodes)],
        tenants or TenantTree(),
        ControllerConfig(most_gpus=64),
    )
    found.tick(0.0, list(events))
    return found


def job(name: str, least: int, most: int | None = None, *, slots: int = 1, tenant: str = "t") -> Submitted:
    return Submitted(JobSpec(name, tenant, 0.0, (Role("replica", least, most or least, slots),), least))


def asked(subject: Controller, most: int = 64, now: float = LATER) -> dict[str, tuple[int, ...]]:
    return {found.job: found.processes for found in demand(subject, most, now)}


def test_an_empty_cluster_needs_the_least_of_a_job():
    assert asked(controller([], job("wide", 3, 8))) == {"wide": (1, 1, 1)}


def test_the_whole_gang_is_asked_for_though_a_part_would_find_room():
    assert asked(controller([2], job("wide", 4))) == {"wide": (1, 1, 1, 1)}


def test_what_runs_does_not_ask_for_more():
    assert asked(controller([2], job("elastic", 2, 8))) == {}


def test_a_job_that_fits_is_not_asked_for_and_its_room_is_not_anothers():
    subject = controller([2], job("blocks", 5), job("fits", 2), job("late", 2))
    assert [*subject.table.waiting] == ["blocks", "fits", "late"], "first in, first out"
    assert asked(subject, most=4) == {"late": (1, 1)}, "a job of five never finds room in four slots"


def test_nodes_are_asked_for_after_a_while():
    subject = controller([], job("wide", 2))
    assert asked(subject, now=PATIENCE_S / 2) == {}
    assert asked(subject, now=PATIENCE_S) == {"wide": (1, 1)}


@pytest.mark.parametrize(("most", "found"), [(3, set()), (4, {"a"}), (7, {"a"}), (8, {"a", "b"})])
def test_the_cluster_is_not_asked_to_grow_beyond_its_limit(most: int, found: set[str]):
    assert asked(controller([], job("a", 4), job("b", 4)), most).keys() == found


def test_a_tenant_is_not_asked_for_beyond_its_limit():
    tenants = TenantTree([Tenant("lab", limit_gpus=4), Tenant("group", parent="lab")])
    subject = controller([], job("a", 3, tenant="group"), job("b", 2, tenant="lab"), job("c", 1), tenants=tenants)
    assert asked(subject).keys() == {"a", "c"}


def test_processes_with_several_slots_need_them_on_one_node():
    assert asked(controller([], job("pairs", 2, slots=2))) == {"pairs": (2, 2)}


def test_a_node_that_goes_has_no_room_and_is_not_meant():
    subject = controller([4, 2], NodeDraining("n0"), job("wide", 4))
    assert demand(subject, 64, LATER) == [Demand("wide", (1, 1, 1, 1), ("n0",))]


def test_jobs_that_rest_are_not_live_and_need_nothing():
    subject = controller([], job("wide", 2), SuspendRequested("wide"))
    assert needs(subject, 64, LATER) == Needs((), frozenset())


def test_seats_are_taken_on_the_fullest_node_that_has_them():
    assert seated((2, 2, 1), {"a": 4, "b": 2, "c": 1}) == (0, {"a": 2, "b": 0, "c": 0})
    assert seated((3, 1), {"a": 2}) == (3, {"a": 1})


# --- groups --------------------------------------------------------------------------------------


class Cloud:
    """Groups, without Ray. ``needs`` and ``now`` are the world's."""

    def __init__(self) -> None:
        self.groups: dict[str, Asked] = {}
        self.needs = Needs((), frozenset())
        self.now = 0.0
        self.made = 0
        self.subject = Autoscaling(lambda: self.needs, self, lambda: self.now)

    def known(self) -> dict[str, Asked]:
        return dict(self.groups)

    def ask(self, name: str, demand: Demand) -> None:
        assert name not in self.groups, "Ray refuses a name that is taken"
        self.made += 1
        self.groups[name] = Asked(f"id-{self.made}", there=False)

    def withdraw(self, identity: str) -> None:
        self.groups = {name: known for name, known in self.groups.items() if known.identity != identity}

    def step(self, after_s: float = 0.5) -> list[str]:
        self.now += after_s
        self.subject.step()
        return list(self.groups)

    def nodes_come(self) -> None:
        self.groups = {name: Asked(known.identity, there=True) for name, known in self.groups.items()}


WIDE = Demand("wide", (1, 1, 2))
WAITS = Needs((WIDE,), frozenset({"wide"}))
HAS_ROOM = Needs((), frozenset({"wide"}))


@pytest.fixture
def cloud() -> Cloud:
    cloud = Cloud()
    cloud.needs = WAITS
    assert cloud.step() == ["raytide-demand:wide:2x1,1x2"]
    return cloud


def test_what_is_needed_is_asked_for_once(cloud: Cloud):
    cloud.step()
    assert cloud.made == 1


def test_a_job_that_ended_or_rests_is_asked_for_no_more_at_once(cloud: Cloud):
    cloud.needs = Needs((), frozenset())
    assert cloud.step() == []


def test_a_group_is_removed_when_its_nodes_are_seen(cloud: Cloud):
    cloud.nodes_come()
    assert cloud.step() != [], "the scheduler does not see room yet"
    cloud.needs = HAS_ROOM
    assert cloud.step() == []


def test_a_group_that_ray_has_not_reserved_yet_gets_a_moment(cloud: Cloud):
    """Otherwise the first node may have been idle for so long that it is taken away before the job is there."""
    cloud.needs = HAS_ROOM
    assert cloud.step(SETTLE_S - 0.5) != []
    assert cloud.step() == []


def test_nodes_are_not_held_for_ever_and_asked_for_again_later(cloud: Cloud):
    cloud.nodes_come()
    cloud.step()
    assert cloud.step(HOLD_S) == [], "somebody else may need them"
    assert cloud.step() == []
    assert cloud.step(HOLD_S) != []


def test_another_need_of_a_job_is_another_group(cloud: Cloud):
    cloud.needs = Needs((Demand("wide", (1, 1, 2), ("n0",)),), frozenset({"wide"}))
    cloud.step()
    cloud.step(SETTLE_S)
    assert len(cloud.groups) == 1
    assert cloud.made == 2


def test_a_scheduler_that_starts_again_goes_on_with_the_groups_there_are(cloud: Cloud):
    cloud.subject = Autoscaling(lambda: cloud.needs, cloud, lambda: cloud.now)
    cloud.step()
    assert cloud.made == 1
    cloud.needs = Needs((), frozenset())
    assert cloud.step() == []


def test_names_tell_demands_apart():
    demands = [WIDE, Demand("wide", (1, 1)), Demand("other", (1, 1, 2)), Demand("wide", (1, 1, 2), ("a",))]
    assert len({group_name(one) for one in demands}) == len(demands)
