"""What a simulation writes down: the cluster after every instant, and who held how many GPUs when."""

from __future__ import annotations

from array import array
from collections import defaultdict
from dataclasses import dataclass, field

from raytide.core import Cluster


def broken_gpus(cluster: Cluster) -> int:
    """Free GPUs on nodes of which others are in use."""
    counts = cluster.free_counts()
    whole = (n for n in counts for _, node in cluster.nodes_with(n) if cluster.node(node).gpus == n)
    return cluster.free - sum(whole)


@dataclass
class Timeline:
    """What the cluster looked like after each instant; times and counts stand side by side.

    Attributes:
        time_s: When.
        held_gpus: GPUs that jobs hold.
        waiting: Jobs that hold nothing and want to run.
        total_gpus: GPUs that are there.
        broken_gpus: Free GPUs on partly used nodes while jobs wait; 0 while none does.
    """

    time_s: list[float] = field(default_factory=list)
    held_gpus: list[int] = field(default_factory=list)
    waiting: list[int] = field(default_factory=list)
    total_gpus: list[int] = field(default_factory=list)
    broken_gpus: list[int] = field(default_factory=list)

    def add(self, now: float, cluster: Cluster, held: int, waiting: int) -> None:
        """Write down an instant."""
        self.time_s.append(now)
        self.held_gpus.append(held)
        self.waiting.append(waiting)
        self.total_gpus.append(cluster.total)
        self.broken_gpus.append(broken_gpus(cluster) if waiting else 0)


class Ledger:
    """Every change of what a job holds, and what of it starts and resizes used up.

    Attributes:
        time_s: When each change happened.
        job: Whose.
        change: GPUs more (or fewer) that this job holds from then on.
        held: GPUs held now, by all.
        lost_s: By job, seconds in which it held GPUs without progress.
        lost_gpu_s: The same, times the GPUs.
    """

    def __init__(self) -> None:
        self.time_s: array[float] = array("d")
        self.job: list[str] = []
        self.change: array[int] = array("q")
        self.held = 0
        self.lost_s: defaultdict[str, float] = defaultdict(float)
        self.lost_gpu_s: defaultdict[str, float] = defaultdict(float)
        self._stretch: dict[str, tuple[float, float, int]] = {}

    def hold(self, now: float, job: str, gpus: int, delay_s: float = 0.0) -> None:
        """From now on the job holds so many GPUs, 0 for none, and makes progress after ``delay_s``."""
        since_s, ready_s, before = self._stretch.pop(job, (now, now, 0))
        lost_s = min(now, ready_s) - since_s
        if lost_s > 0:
            self.lost_s[job] += lost_s
            self.lost_gpu_s[job] += lost_s * before
        if gpus:
            self._stretch[job] = (now, now + delay_s, gpus)
        if gpus != before:
            self._note(now, job, gpus - before)

    def _note(self, now: float, job: str, change: int) -> None:
        self.time_s.append(now)
        self.job.append(job)
        self.change.append(change)
        self.held += change
