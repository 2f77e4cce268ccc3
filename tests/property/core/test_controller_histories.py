"""Random clusters, tenants, jobs and failures against the controller, whose answers come late and in any order.

After every round all invariants are checked; at the end every job has reached exactly one terminal state.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from raytide.core import Controller, ControllerConfig, Costs, JobSpec, Node, Role, Tenant, TenantTree
from raytide.core import events as e
from raytide.core.commands import Command, Refuse, Scale, Start, Stop, Suspend, Wake
from raytide.policies.afs import Afs
from raytide.policies.deadline import Deadline
from raytide.policies.easy_backfill import EasyBackfill
from raytide.policies.elastic_tiresias import ElasticTiresias
from raytide.policies.eps import Eps
from raytide.policies.fair import Fair
from raytide.policies.fifo import Fifo
from raytide.policies.first_fit import FirstFit
from raytide.policies.ftf import Ftf
from raytide.policies.gavel import Gavel
from raytide.policies.gittins import Gittins
from raytide.policies.las2d import Las2d
from raytide.policies.optimus import Optimus
from raytide.policies.placement import Consolidated, Count, MostFree, Pack, Random, Spread
from raytide.policies.pollux import Pollux
from raytide.policies.shortest import Srgf, Srtf
from raytide.policies.tide import Tide
from raytide.policies.tiresias import Tiresias
from support.scheduling import job, nodes

POLICIES = [
    Tide,
    Fifo,
    FirstFit,
    EasyBackfill,
    Gittins,
    Optimus,
    Afs,
    partial(Ftf, 20.0),
    partial(Gavel, 10.0),
    Eps,
    partial(Pollux, 0, 8, 2, 5.0),
    Fair,
    Deadline,
    Srtf,
    Srgf,
    partial(Las2d, (60.0, 200.0)),
    partial(Tiresias, 60.0),
    partial(ElasticTiresias, 60.0, waiting_limit=2),
]
COSTS = ControllerConfig(costs=Costs(3.0, 3.0, 3.0))
PLACERS = [Count, Pack, Spread, MostFree, Consolidated, Random]
STEPS = 60


class World:
    """Carries out commands with delays, loses nodes and processes, and answers in any order.

    Args:
        rng: Draws everything.
        controller: Under test.
    """

    def __init__(self, rng: random.Random, controller: Controller) -> None:
        self.rng = rng
        self.controller = controller
        self.now = 0.0
        self.answers: list[e.Event] = []
        self.submitted = 0
        self.joined = len(list(controller.table.cluster.nodes))

    def step(self, more: Sequence[e.Event]) -> None:
        self.now += self.rng.choice([0.0, 1.0, 7.0])
        self.rng.shuffle(self.answers)
        count = self.rng.randint(0, len(self.answers))
        heard, self.answers = self.answers[:count], self.answers[count:]
        for command in self.controller.tick(self.now, [*heard, *more]):
            self.carry_out(command)
        self.controller.validate()

    def carry_out(self, command: Command) -> None:
        match command:
            case Start(name):
                self.answers.append(self.rng.choice([e.Started(name)] * 3 + [e.Crashed(name, "did not start")]))
            case Scale(name):
                self.answers.append(self.rng.choice([e.Resized(name)] * 3 + [e.ResizeFailed(name, "gave up")]))
            case Suspend(name):
                self.answers.append(self.rng.choice([e.Suspended(name)] * 4 + [e.SuspendFailed(name, "disk is full")]))
            case Stop(name):
                self.answers.append(e.Stopped(name))
            case Refuse() | Wake():
                pass

    def happenings(self) -> list[e.Event]:
        """One thing that nobody commanded."""
        table, rng = self.controller.table, self.rng
        running = [name for name, record in table.holding.items() if record.state == "running"]
        others = ["crash", "cancel", "join", "drain", "lose", "timer", "suspend", "resume", "bounds", "taken"]
        kind = rng.choice(["submit"] * 4 + ["finish"] * 3 + others)
        if kind == "submit":
            self.submitted += 1
            return [e.Submitted(self.random_job())]
        if kind in ("finish", "crash") and running:
            name = rng.choice(running)
            return [e.Finished(name, rng.choice(["", "error"])) if kind == "finish" else e.Crashed(name, "lost")]
        if kind == "cancel" and table.live:
            return [e.CancelRequested(rng.choice(list(table.live)))]
        if kind == "suspend" and table.live:
            return [e.SuspendRequested(rng.choice(list(table.live)))]
        if kind == "resume" and table.resting:
            return [e.ResumeRequested(rng.choice(list(table.resting)))]
        if kind == "bounds" and table.live:
            least = rng.choice([1, 2, 3])
            return [
                e.BoundsChanged(rng.choice(list(table.live)), least, least + rng.choice([0, 2]), rng.random() < 0.8)
            ]
        if kind == "join":
            self.joined += 1
            return [e.NodeJoined(Node(f"n{self.joined}", rng.choice([1, 4, 8])))]
        names = [node.node for node in table.cluster.nodes]
        if kind == "taken":
            return [e.NodeTaken(rng.choice(names), rng.choice([0, 1, 4, 9]))]
        if kind in ("drain", "lose") and len(names) > 1:
            name = rng.choice(names)
            return [e.NodeDraining(name) if kind == "drain" else e.NodeLost(name)]
        return [e.Timer()]

    def random_job(self) -> JobSpec:
        if isinstance(self.controller.policy, Eps) and self.rng.random() < 0.5:
            return self.random_served_job()
        rng = self.rng
        least = rng.choice([1, 1, 2, 3, 8])
        return job(
            f"j{self.submitted}",
            least,
            to=rng.choice([least, least + 2]),
            at=self.now,
            tenant=rng.choice("abc"),
            duration_s=rng.choice([None, 5.0, 50.0]),
            work=rng.choice([None, 20.0, 200.0]),
            deadline_s=rng.choice([None, self.now + 20.0, self.now + 200.0]),
            preemptible=rng.random() < 0.8,
        )

    def random_served_job(self) -> JobSpec:
        """Workers and servers, some of which need no GPU."""
        workers, servers = self.rng.choice([1, 1, 2]), self.rng.choice([1, 1, 2])
        roles = (
            Role("worker", workers, workers + self.rng.choice([0, 4])),
            Role("server", servers, servers + self.rng.choice([0, 3]), gpus=self.rng.choice([0, 1])),
        )
        return JobSpec(f"j{self.submitted}", self.rng.choice("abc"), self.now, roles, workers)

    def wind_down(self) -> None:
        """Everything is answered, and everybody gets the chance to finish."""
        resumed = [e.ResumeRequested(name) for name, record in self.controller.table.all.items() if record.held]
        self.step([e.NodeJoined(Node("rescue", 64)), *resumed])
        for _ in range(400):
            self.now += 1.0
            heard, self.answers = self.answers, []
            running = [n for n, record in self.controller.table.holding.items() if record.state == "running"]
            done = [e.Finished(name) for name in running]
            for command in self.controller.tick(self.now, [*heard, *done]):
                self.carry_out(command)
            self.controller.validate()
            if not self.controller.table.live:
                return
        stuck = next(iter(self.controller.table.live.values()))
        raise AssertionError(f"never ended: {stuck.story()}; {self.controller.explain(stuck.job)}")


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32), placer=st.sampled_from(PLACERS))
@pytest.mark.parametrize("policy", POLICIES)
def test_history(policy, seed, placer):
    rng = random.Random(seed)
    tenants = TenantTree([Tenant("a", limit_gpus=8), Tenant("b", "a", limit_gpus=4), Tenant("c", guaranteed_gpus=3)])
    controller = Controller(policy(), placer(), nodes(*rng.choices([1, 4, 8], k=rng.randint(1, 4))), tenants, COSTS)
    world = World(rng, controller)
    for _ in range(STEPS):
        world.step(world.happenings())
    world.wind_down()
    assert all(record.ended for record in controller.table.all.values())
    assert controller.table.cluster.free == sum(
        controller.table.cluster.free_on(node.node) for node in controller.table.cluster.nodes
    )
