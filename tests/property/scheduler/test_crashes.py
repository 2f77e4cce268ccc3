"""Random jobs, answers and crashes of the scheduler: nothing acknowledged is lost, no slot leaks."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from raytide.core.events import BoundsChanged, CancelRequested, ResumeRequested, SuspendRequested
from raytide.policies.fair import Fair
from raytide.policies.fifo import Fifo
from raytide.policies.tide import Tide
from support.engine import Desk
from support.scheduling import job, nodes

CLUSTER = nodes(3, 2)
STEPS = 25


class History:
    """One scheduler after another on the same store, and jobs that outlive them."""

    def __init__(self, seed: int, folder: Path, policy: type) -> None:
        self.rng = random.Random(seed)
        self.folder, self.policy = folder, policy
        self.desk = Desk(folder, policy(), CLUSTER)
        self.acknowledged: list[str] = []

    def step(self) -> None:
        """Something happens."""
        rng, live = self.rng, list(self.desk.controller.table.live)
        kind = rng.choice(["submit"] * 3 + ["end"] * 2 + ["round"] * 3 + ["owner", "bounds", "crash", "lost"])
        if kind == "submit":
            name = f"j{len(self.acknowledged)}"
            least = rng.choice([1, 2])
            self.desk.submit(job(name, least, to=rng.choice([least, 4]), tenant=rng.choice("ab")))
            self.acknowledged.append(name)
        elif kind == "end" and self.desk.masters.holds:
            self.desk.ends(rng.choice(list(self.desk.masters.holds)))
        elif kind == "owner" and live:
            event = rng.choice([CancelRequested, SuspendRequested, ResumeRequested])
            self.desk.engine.tell(event(rng.choice(live)))
        elif kind == "bounds" and live:
            self.desk.engine.tell(BoundsChanged(rng.choice(live), 1, rng.choice([1, 3]), preemptible=True))
        elif kind == "crash":
            self.crash()
        else:
            self.desk.round()

    def crash(self) -> None:
        """The scheduler dies in the middle of a round: what is written is not carried out."""
        if self.rng.random() < 0.5:
            self.desk.engine._dispatcher.carry_out = lambda *command: None
            self.desk.round()
        self.desk.store.close()
        self.desk = Desk(self.folder, self.policy(), CLUSTER, self.desk.masters)
        self.desk.controller.validate()

    def is_settled(self) -> bool:
        """Every job that runs holds exactly the slots that the controller counts as its."""
        table = self.desk.controller.table
        running = [name for name, record in table.holding.items() if record.state == "running"]
        placed = {name: dict(table.cluster.placement(name).gpus) for name in running}
        return {name: self.desk.masters.holds.get(name) for name in running} == placed

    def wind_down(self) -> None:
        """Everybody gets the chance to finish."""
        table = self.desk.controller.table
        self.desk.until(self.is_settled, "jobs hold what the controller gave them")
        for name in list(table.resting):
            self.desk.engine.tell(ResumeRequested(name))

        def over() -> bool:
            for name in list(table.resting):
                self.desk.engine.tell(ResumeRequested(name))
            for name in list(self.desk.masters.holds):
                self.desk.ends(name)
            for name in [name for name, record in table.holding.items() if record.state == "stopping"]:
                self.desk.ends(name, "stopped")
            return not table.live and not table.resting

        self.desk.until(over, "the end of all jobs")


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 2**32))
@pytest.mark.parametrize("policy", [Fifo, Tide, Fair])
def test_history(policy, seed):
    with tempfile.TemporaryDirectory() as folder:
        history = History(seed, Path(folder), policy)
        for _ in range(STEPS):
            history.step()
        history.wind_down()
        rows = [history.desk.store.job(name) for name in history.acknowledged]
        assert all(row is not None and row.past.ended_s is not None for row in rows)
        assert history.desk.controller.table.cluster.free == 5
        history.desk.store.close()
