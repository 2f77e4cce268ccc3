from __future__ import annotations

import pytest

from raytide.core import Cluster, Placement
from raytide.sim.history import Ledger, broken_gpus
from support.scheduling import nodes


def test_the_ledger_notes_changes():
    ledger = Ledger()
    ledger.hold(1.0, "a", 4)
    ledger.hold(2.0, "b", 2)
    ledger.hold(3.0, "a", 6)
    ledger.hold(4.0, "a", 6)  # moved
    ledger.hold(5.0, "a", 0)
    assert list(zip(ledger.time_s, ledger.job, ledger.change, strict=True)) == [
        (1.0, "a", 4),
        (2.0, "b", 2),
        (3.0, "a", 2),
        (5.0, "a", -6),
    ]
    assert ledger.held == 2


@pytest.mark.parametrize(
    ("story", "lost_s", "lost_gpu_s"),
    [
        ([(0.0, 4, 3.0), (10.0, 0, 0.0)], 3.0, 12.0),
        ([(0.0, 4, 3.0), (2.0, 0, 0.0)], 2.0, 8.0),  # taken away before it was up
        ([(0.0, 4, 3.0), (2.0, 8, 5.0), (10.0, 0, 0.0)], 7.0, 48.0),  # resized before it was up
        ([(0.0, 4, 0.0), (2.0, 0, 0.0), (5.0, 4, 1.0), (9.0, 0, 0.0)], 1.0, 4.0),
    ],
)
def test_the_ledger_counts_what_starts_and_resizes_use_up(story, lost_s, lost_gpu_s):
    ledger = Ledger()
    for now, gpus, delay_s in story:
        ledger.hold(now, "a", gpus, delay_s)
    assert ledger.lost_s.get("a", 0.0) == lost_s
    assert ledger.lost_gpu_s.get("a", 0.0) == lost_gpu_s


def test_a_job_that_never_held_anything_is_not_noted():
    ledger = Ledger()
    ledger.hold(1.0, "a", 0)
    assert not ledger.job


def test_broken_gpus_are_those_beside_ones_in_use():
    cluster = Cluster(nodes(8, 8, 4, 4))
    assert broken_gpus(cluster) == 0
    cluster.assign("a", Placement((("n0", 4), ("n2", 1))))
    assert broken_gpus(cluster) == 4 + 3
    cluster.close_node("n2")
    assert broken_gpus(cluster) == 4
