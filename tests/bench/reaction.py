"""From the exit of a job to the first step of another one that takes its slots: what the platform needs in between.

Two emulated jobs share two nodes of two slots each, two standbys wait on each node. One job ends; the other grows from
two to four replicas. The same again with decisions at a heartbeat of five seconds, as schedulers that poll have them.

Prints ``reaction_s`` (median over the repetitions): from the instant at which the last replica of the ending job left
its loop to the first step with four replicas; ``heartbeat_reaction_s``: the same with the heartbeat; ``decision_ms``
(median) and ``decision_p99_ms``: one round of the controller with 100 jobs in which one ends and one arrives;
``round_ms``: that and writing it down.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

from _platform import platform, ray_cluster, submit, wait_for, wait_warm
from _support import emit, first_times, median, read_trace, say, scratch

from raytide.actors.platform import Platform
from raytide.actors.scheduler.engine import Engine, Entry
from raytide.actors.scheduler.work import RIGID, Terms, sealed
from raytide.core import Controller, JobSpec, Node, Role, Rounds
from raytide.core.events import Event, Finished, NodeJoined
from raytide.policies.placement import Pack
from raytide.policies.tide import Tide
from raytide.state import NewJob, StateStore

HEARTBEAT_S = 5.0
JOBS = 100
RATES = {1: 100.0, 2: 190.0, 4: 360.0}
STEP = {"global_batch_size": 40, "parameters": 50_000, "layers": 2, "rates_by": "replicas", "rates": RATES}


class HeartbeatTide(Tide):
    """Tide, asked every five seconds only."""

    clock = Rounds(HEARTBEAT_S)


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeat", type=int, default=3, help="how often each is measured")
    repeat = parser.parse_args().repeat
    decisions_s, rounds_s = decisions()
    reactions: dict[str, list[float]] = {}
    with ray_cluster(2, 2), scratch() as folder:
        for policy in ("tide", "reaction:HeartbeatTide"):
            reactions[policy] = measured(policy, repeat, Path(folder))
    by_event, by_heartbeat = reactions.values()
    emit(
        {
            "reaction_s": median(by_event),
            "reaction_max_s": max(by_event),
            "heartbeat_reaction_s": median(by_heartbeat),
            "decision_ms": 1000.0 * median(decisions_s),
            "decision_p99_ms": 1000.0 * sorted(decisions_s)[int(0.99 * len(decisions_s))],
            "round_ms": 1000.0 * median(rounds_s),
        }
    )


def measured(policy: str, repeat: int, folder: Path) -> list[float]:
    """Reactions under a policy, in seconds."""
    found = []
    with platform(policy=policy, standbys=2) as running:
        for number in range(repeat):
            found.append(reaction(running, f"{policy.rpartition(':')[2]}-{number}", folder))
            say(f"{policy}: {found[-1]:.2f} s")
    return found


def reaction(running: Platform, name: str, folder: Path) -> float:
    """One job ends, another grows."""
    wait_warm(running, 4)
    short, long = f"{name}-ends", f"{name}-grows"
    submit(running, short, "raytide.jobs.emulated", folder, workers=2, config={**STEP, "epochs": 1, "samples": 3000})
    wait_for(running, short, lambda info: info.step > 0, "the first job's steps")
    submit(running, long, "raytide.jobs.emulated", folder, workers=(1, 4), config={**STEP, "samples": 100_000})
    wait_for(running, long, lambda info: info.count == 2 and info.step > 0, "the second job's steps")
    wait_warm(running, 4)
    running.wait(short, 120.0)
    wait_for(running, long, lambda info: info.count == 4 and info.state == "running", "growth")
    time.sleep(2.0)
    ended_s = max(step.time_s for step in read_trace(str(folder / short)))
    grown = [step for step in read_trace(str(folder / long)) if step.world_size == 4]
    running.cancel(long)
    running.wait(long, 60.0)
    return min(first_times(grown).values()) - ended_s


def decisions() -> tuple[list[float], list[float]]:
    """Seconds of the controller alone, and of whole rounds, with 100 jobs; the first rounds are not counted."""
    with tempfile.TemporaryDirectory() as folder:
        engine, controller = _engine(Path(folder))
        engine.begin([NodeJoined(Node(f"n{number}", 8)) for number in range(16)], 0.0)
        alone_s, rounds_s = [], []
        for number in range(JOBS + 100):
            ends: list[Event] = [Finished(_oldest(controller))] if number >= JOBS else []
            entries = [Entry(lambda ends=ends: ends), Entry(lambda number=number: engine.submitted(_job(number)))]
            began_s = time.perf_counter()
            engine.serve(entries)
            rounds_s.append(time.perf_counter() - began_s)
            alone_s.append(engine.tick_s)
    return alone_s[JOBS:], rounds_s[JOBS:]


def _engine(folder: Path) -> tuple[Engine, Controller]:
    store = StateStore(f"sqlite:///{folder}/state.db")
    controller = Controller(Tide(), Pack())
    return Engine(controller, store, store.begin_incarnation("{}"), _Obedient()), controller


def _job(number: int) -> NewJob:
    spec = JobSpec(f"j{number}", f"t{number % 3}", 0.0, (Role("replica", 1, 8),), 2)
    return NewJob(spec, sealed(RIGID, Terms(1, 8), "{}"), f"key-{number}")


def _oldest(controller: Controller) -> str:
    return next(iter(controller.table.holding))


class _Obedient:
    """Masters that do at once what they are told."""

    def __getattr__(self, name: str) -> Any:
        return lambda *arguments: None


if __name__ == "__main__":
    main()
