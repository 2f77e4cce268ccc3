"""What a simulation told its controller, told to another one: the same commands, to the byte.

The log holds nothing but times and events, pickled. A second process, in which sets have another order, agrees as well.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import pytest

from raytide.core import Controller, ControllerConfig, Costs, JobSpec, Role, SpeedTable, Tenant, TenantTree
from raytide.core.commands import Command
from raytide.core.events import Event, NodeJoined, NodeLost, Submitted
from raytide.policies.registry import make_placer, policy_names
from raytide.sim.faults import FaultRates, RandomFaults
from raytide.sim.simulation import SimJob, Simulation
from raytide.sim.traces import SyntheticTrace, generate
from raytide.sim.workload import Fixed
from support.scheduling import nodes, quick_policy

CLUSTER = nodes(8, 8, 8, 8)
TENANTS = TenantTree([Tenant("tenant-1", limit_gpus=20), Tenant("tenant-2", guaranteed_gpus=8, reclaim_after_s=60.0)])
SPEEDS = {
    "steep": SpeedTable({1: 1.0, 8: 7.0, 32: 20.0}),
    "flat": SpeedTable({1: 1.0, 2: 1.6, 4: 2.0, 8: 1.9}),
}
TESTS = Path(__file__).parents[1]


class Recorder(Controller):
    """A controller that writes down what it is told and what it answers."""

    def tick(self, now: float, events: Sequence[Event]) -> list[Command]:
        commands = super().tick(now, events)
        self.log.append((now, tuple(events)))
        self.answers.append(repr(commands))
        return commands


def recorder(policy: str) -> Recorder:
    config = ControllerConfig(instant=True, most_gpus=32, speeds=SPEEDS, costs=Costs(20.0, 30.0, 5.0))
    made = Recorder(quick_policy(policy), make_placer("pack"), CLUSTER, TENANTS, config)
    made.log, made.answers = [], []
    return made


def elastic_jobs() -> list[SimJob]:
    """Jobs of a synthetic trace, half of them elastic, of two models."""
    trace = generate(SyntheticTrace(jobs=120, span_s=4 * 3600.0, longest_s=3 * 3600.0, tenants=4, seed=2))
    return [_elastic(number, job) for number, job in enumerate(trace)]


def _elastic(number: int, job) -> SimJob:
    model = "flat" if number % 3 else "steep"
    table = SPEEDS[model]
    least, most = (max(1, job.gpus // 2), 4 * job.gpus) if number % 2 else (job.gpus, job.gpus)
    work = job.duration_s * table.speed(job.gpus)
    spec = JobSpec(
        job=job.job_id,
        tenant=job.tenant,
        submitted_s=job.submit_s,
        roles=(Role("replica", least, most),),
        requested=job.gpus,
        priority=number % 2,
        duration_s=job.duration_s,
        work=work,
        model=model,
    )
    return SimJob(spec, Fixed(work, lambda placement: table.speed(placement.total)))


@cache
def recorded(policy: str) -> tuple[bytes, list[str]]:
    """The log of a simulation with faults, as bytes, and what its controller answered."""
    controller = recorder(policy)
    faults = RandomFaults(CLUSTER, FaultRates(mtbf_s=3 * 3600.0, spot_s=6 * 3600.0), 0, 0.0, float("inf"))
    Simulation(controller, elastic_jobs(), faults).run()
    return pickle.dumps(controller.log), controller.answers


def replay(policy: str, log: bytes) -> list[str]:
    """What a fresh controller answers to a log."""
    controller = recorder(policy)
    for now, events in pickle.loads(log):
        controller.tick(now, events)
    controller.validate()
    return controller.answers


@pytest.mark.parametrize("policy", policy_names())
def test_a_fresh_controller_gives_the_same_commands(policy):
    log, answers = recorded(policy)
    kinds = {type(event) for _, events in pickle.loads(log) for event in events}
    assert {Submitted, NodeLost, NodeJoined} <= kinds
    assert sum("Start(" in answer for answer in answers) >= 20
    assert replay(policy, log) == answers


def digest(answers: list[str]) -> str:
    return hashlib.sha256("\n".join(answers).encode()).hexdigest()


def test_another_process_gives_the_same_commands(tmp_path):
    for policy in policy_names():
        (tmp_path / f"{policy}.log").write_bytes(recorded(policy)[0])
    code = (
        "import sys; from pathlib import Path; from replay.test_recorded_log import digest, replay\n"
        "for path in sorted(Path(sys.argv[1]).glob('*.log')):\n"
        "    print(path.stem, digest(replay(path.stem, path.read_bytes())))"
    )
    seed = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    path = os.pathsep.join([str(TESTS), *filter(None, sys.path)])
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)],
        env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    expected = {policy: digest(recorded(policy)[1]) for policy in policy_names()}
    assert dict(line.split() for line in done.stdout.splitlines()) == expected
