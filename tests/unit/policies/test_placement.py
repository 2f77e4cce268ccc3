"""Placers as tables: free slots by node, how many are wanted, which are given."""

from __future__ import annotations

import pytest

from raytide.core import NOWHERE, Cluster, Controller, Job, Node, Placement, replicas, rigid
from raytide.core.commands import Scale
from raytide.core.events import NodeDraining, Started, Submitted
from raytide.policies.fifo import Fifo
from raytide.policies.placement import Consolidated, Count, MostFree, Pack, Random, Spread
from support.scheduling import job, nodes


def cluster_with_free(*free: int) -> Cluster:
    """Nodes of 8 GPUs with so many free."""
    cluster = Cluster(nodes(*[8] * len(free)))
    for i, count in enumerate(free):
        if count < 8:
            cluster.assign(f"other{i}", Placement(((f"n{i}", 8 - count),)))
    return cluster


def place(placer, cluster: Cluster, count: int) -> dict[str, int] | None:
    placement = placer.place(cluster, Job(job("new", 1, to=64), 0), replicas(count))
    return None if placement is None else dict(placement.gpus)


@pytest.mark.parametrize(
    ("placer", "free", "wanted", "given"),
    [
        (Pack(), (8, 3, 5), 3, {"n1": 3}),
        (Pack(), (8, 3, 5), 4, {"n2": 4}),
        (Pack(), (8, 3, 5), 10, {"n1": 3, "n2": 5, "n0": 2}),
        (Pack(), (8, 8, 8), 20, {"n0": 8, "n1": 8, "n2": 4}),
        (Consolidated(), (8, 3, 5), 3, {"n1": 3}),
        (Consolidated(), (8, 3, 5), 10, {"n0": 8, "n1": 2}),
        (Consolidated(), (8, 8, 8), 20, {"n0": 8, "n1": 8, "n2": 4}),
        (Pack(), (1, 1, 0), 3, None),
        (Consolidated(), (4, 4, 6), 5, {"n2": 5}),
        (Consolidated(), (4, 1, 1), 6, {"n0": 4, "n1": 1, "n2": 1}),  # the rest fits only where it is taken already
        (Consolidated(), (4, 4, 0), 5, {"n0": 4, "n1": 1}),
        (MostFree(), (4, 7, 4), 9, {"n1": 7, "n0": 2}),
        (MostFree(), (4, 4, 4), 2, {"n0": 2}),
        (Spread(), (4, 2, 1), 5, {"n0": 2, "n1": 2, "n2": 1}),
        (Count(), (4, 1, 2), 3, {"n1": 1, "n2": 2}),
        (Count(), (4, 1, 2), 8, None),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_new_jobs(placer, free, wanted, given):
    assert place(placer, cluster_with_free(*free), wanted) == given


@pytest.mark.parametrize(
    "placer", [Pack(), Spread(), Count(), MostFree(), Consolidated(), Random()], ids=lambda p: p.name
)
def test_a_growing_job_keeps_what_it_has(placer):
    cluster = cluster_with_free(8, 8)
    cluster.assign("new", Placement((("n1", 3),)))
    given = place(placer, cluster, 5)
    assert given is not None
    assert given["n1"] >= 3
    assert sum(given.values()) == 5


@pytest.mark.parametrize(
    "placer", [Pack(), Spread(), Count(), MostFree(), Consolidated(), Random()], ids=lambda p: p.name
)
def test_a_shrinking_job_leaves_the_node_where_it_has_least(placer):
    cluster = cluster_with_free(8, 8)
    cluster.assign("new", Placement((("n0", 2), ("n1", 5))))
    assert place(placer, cluster, 5) == {"n1": 5}
    assert place(placer, cluster, 4) == {"n1": 4}


def test_nothing_needs_no_node():
    assert Pack().place(cluster_with_free(0), Job(job("new", 1), 0), replicas(0)) == NOWHERE


def test_lots_are_drawn_alike_for_the_same_job_and_seed_only():
    def drawn(name: str, seed: int = 0) -> Placement | None:
        return Random(seed).place(cluster_with_free(8, 8, 8, 8), Job(job(name, 8), 0), replicas(8))

    assert drawn("a") == drawn("a")
    assert len({drawn(f"j{i}") for i in range(10)} | {drawn("a", seed) for seed in range(10)}) > 15


def test_every_free_slot_has_the_same_chance():
    cluster, given = cluster_with_free(1, 7, 4), dict.fromkeys(("n0", "n1", "n2"), 0)
    for i in range(1200):
        placement = Random().place(cluster, Job(job(f"j{i}"), 0), replicas(1))
        assert placement is not None
        given[placement.nodes[0]] += 1
    assert given["n0"] == pytest.approx(100, abs=30)
    assert given["n1"] == pytest.approx(700, abs=60)


@pytest.mark.parametrize("placer", [Pack(), Spread(), MostFree(), Consolidated()], ids=lambda placer: placer.name)
def test_a_node_that_will_go_is_left_where_there_is_room(placer):
    controller = Controller(Fifo(), placer, [Node("a", 4), Node("b", 4)])
    controller.tick(0.0, [Submitted(rigid("j", "t", 0.0, 2))])
    controller.tick(1.0, [Started("j")])
    placement = controller.table.cluster.placement("j")
    (command,) = controller.tick(2.0, [NodeDraining(placement.nodes[0])])
    (other,) = {"a", "b"} - {placement.nodes[0]}
    assert command == Scale("j", replicas(2), Placement(((other, 2),)))


def test_a_node_that_will_go_is_kept_while_there_is_no_room():
    controller = Controller(Fifo(), Pack(), [Node("a", 4), Node("b", 1)])
    controller.tick(0.0, [Submitted(rigid("j", "t", 0.0, 2))])
    controller.tick(1.0, [Started("j")])
    assert controller.tick(2.0, [NodeDraining("a")]) == []
    assert controller.table.cluster.placement("j") == Placement((("a", 2),))
