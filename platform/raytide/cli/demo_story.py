"""The demo's story: what happens to the job, one act after another, and what it proves."""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from raytide.actors.views import JobView
from raytide.cli import cluster
from raytide.cli.demo_cluster import two_nodes
from raytide.cli.demo_pace import fitting_epochs
from raytide.cli.demo_watch import Watch
from raytide.cli.moments import Moment, story_of
from raytide.cli.timeline import draw_timeline
from raytide.cli.traces import EpochSamples, check_epochs, read_steps
from raytide.jobs import digits
from raytide.train import ElasticTrainer, FailureConfig, JobHandle, Result, RunConfig, ScalingConfig

MOST = 4
PATIENCE_S = 20.0
"""Replicas that import PyTorch on busy cores can be silent for seconds; a killed one is noticed anyway."""
DWELL_S, DWELL_STEPS = 4.0, 30
"""Between two acts the job trains undisturbed, so that the picture shows each size."""


@dataclass(frozen=True)
class Told:
    """What the demo showed."""

    result: Result
    story: Sequence[Moment]
    epochs: Sequence[EpochSamples]
    wanted_epochs: int
    picture: Path
    total_s: float
    most: int = MOST

    @property
    def accuracy(self) -> float:
        return float(self.result.metrics["accuracy"])

    @property
    def is_exact(self) -> bool:
        """Whether every epoch used every sample exactly once."""
        return len(self.epochs) == self.wanted_epochs and all(epoch.is_exact for epoch in self.epochs)


def tell(folder: Path, epochs: int | None, say: Callable[[str], None]) -> Told:
    """Run the whole demo; traces, checkpoints and the picture go to ``folder``."""
    started_s = time.monotonic()
    for part in ("trace", "storage"):
        shutil.rmtree(folder / part, ignore_errors=True)
    wanted = epochs or fitting_epochs()
    say("starting a Ray cluster: two logical nodes, node-a and node-b, with two slots each")
    with two_nodes():
        say(f"training digits for {wanted} epochs, on one replica at first")
        handle = _trainer(folder, wanted).start()
        try:
            with Watch(handle) as watch:
                _play(handle, watch)
                watch.until(lambda view: view.ended, "the training ended", ends=True)
            result = handle.result()
        finally:
            handle.close()
    steps = read_steps(folder / "trace")
    picture = folder / "timeline.png"
    draw_timeline(result, steps).savefig(picture)
    seen = check_epochs(steps, len(digits.datasets()[0]))
    story = story_of(result)
    return Told(result, story, seen, wanted, picture, time.monotonic() - started_s)


def _trainer(folder: Path, epochs: int) -> ElasticTrainer:
    return ElasticTrainer(
        digits.loop,
        train_loop_config={
            **digits.CONFIG,
            "epochs": epochs,
            "checkpoint_every_epochs": max(10, epochs // 5),
        },
        scaling_config=ScalingConfig(num_workers=(1, MOST)),
        run_config=RunConfig(
            name="digits",
            storage_path=str(folder / "storage"),
            trace_path=str(folder / "trace"),
            failure_config=FailureConfig(suspect_s=PATIENCE_S),
        ),
    )


def _play(handle: JobHandle, watch: Watch) -> None:
    """All acts; each is possible with four slots."""
    watch.train_on(DWELL_S, DWELL_STEPS)

    watch.say("grow to 3: two newcomers start and import PyTorch while the first one trains on")
    handle.scale_out(2)
    watch.train_on(DWELL_S, DWELL_STEPS)

    rank, node = choose_move(watch.view, cluster.node_names())
    watch.say(f"migrate rank {rank} to {node}, where the fourth slot is free")
    handle.migrate(rank, node)
    watch.train_on(DWELL_S, DWELL_STEPS)

    watch.say("grow to 4: every slot is taken")
    handle.scale_out(1)
    watch.train_on(DWELL_S, DWELL_STEPS)

    victim = choose_victim(watch.view)
    watch.say(f"kill -9 {victim}: a replica dies in the middle of a step; a replacement is started by itself")
    generation = watch.view.generation
    os.kill(victim, signal.SIGKILL)
    watch.until(lambda view: view.generation > generation, "the others go on")
    watch.until(lambda view: view.world_size == MOST, "the replacement joined")
    watch.train_on(DWELL_S, DWELL_STEPS)

    watch.say("shrink to 2: nobody waits for the leavers")
    handle.scale_in(2)
    watch.say("and now to the end, on two replicas")


def choose_move(view: JobView, names: dict[str, str]) -> tuple[int, str]:
    """The last rank of the fuller node, and the other node's name."""
    members = [member for member in view.members if member.rank >= 0]
    (full, _), *_ = Counter(member.node for member in members).most_common()
    rank = max(member.rank for member in members if member.node == full)
    return rank, next(name for node, name in sorted(names.items(), key=lambda item: item[1]) if node != full)


def choose_victim(view: JobView) -> int:
    """The process of rank 2: neither the first nor the last."""
    return next(member.pid for member in view.members if member.rank == 2)
