from __future__ import annotations

import pytest

from raytide.core import NOWHERE, Cluster, Node, Placement, PlacementError
from support.scheduling import nodes


def on(**gpus: int) -> Placement:
    return Placement(tuple(gpus.items()))


@pytest.fixture
def cluster():
    cluster = Cluster(nodes(8, 4))
    yield cluster
    cluster.validate()


def test_free_and_held_add_up(cluster: Cluster):
    cluster.assign("a", on(n0=3, n1=4))
    assert (cluster.total, cluster.free) == (12, 5)
    assert (cluster.free_on("n0"), cluster.free_on("n1")) == (5, 0)
    cluster.assign("a", on(n0=8))
    assert (cluster.free_on("n0"), cluster.free_on("n1")) == (0, 4)
    cluster.assign("a", NOWHERE)
    assert cluster.free == 12
    assert not cluster.held


@pytest.mark.parametrize(
    ("placement", "words"),
    [
        (on(n1=5), "job a: 5 more slots of node n1, where 4 are free"),
        (on(n0=1, n7=1), "job a: there is no node n7"),
        (on(n0=0), "job a: 0 more slots of node n0"),
    ],
)
def test_a_refused_placement_changes_nothing(cluster: Cluster, placement, words):
    with pytest.raises(PlacementError) as said:
        cluster.assign("a", placement)
    assert words in str(said.value)
    assert cluster.free == 12


def test_nodes_are_found_by_free_slots_in_the_order_in_which_they_joined():
    cluster = Cluster(nodes(8, 8, 8, 8))
    cluster.assign("a", on(n0=3, n2=3, n3=8))
    assert cluster.free_counts() == [5, 8]
    assert [name for _, name in cluster.nodes_with(5)] == ["n0", "n2"]
    cluster.assign("a", on(n3=8))
    assert [name for _, name in cluster.nodes_with(8)] == ["n0", "n1", "n2"]


def test_placements_are_tried_together_and_nothing_is_changed(cluster: Cluster):
    cluster.assign("a", on(n0=8))
    assert cluster.fits({"a": on(n1=4), "b": on(n0=8)})
    assert not cluster.fits({"b": on(n0=8), "a": on(n1=4)}), "in this order"
    assert not cluster.fits({"b": on(n1=4), "c": on(n1=1)})
    assert cluster.placement("a") == on(n0=8)


def test_a_trial_is_taken_back(cluster: Cluster):
    cluster.assign("a", on(n0=2))
    cluster.checkpoint()
    cluster.assign("a", NOWHERE)
    cluster.assign("b", on(n0=8))
    cluster.checkpoint()
    cluster.assign("c", on(n1=4))
    cluster.commit()
    assert cluster.free == 0
    cluster.rollback()
    assert dict(cluster.held) == {"a": on(n0=2)}


def test_a_closed_node_gives_out_nothing_new_and_takes_back(cluster: Cluster):
    cluster.assign("a", on(n0=2))
    cluster.close_node("n0")
    assert (cluster.free, cluster.free_on("n0")) == (4, 0)
    with pytest.raises(PlacementError):
        cluster.assign("b", on(n0=1))
    cluster.assign("a", on(n0=1))
    assert cluster.free == 4


def test_a_lost_node_takes_slots_with_it(cluster: Cluster):
    cluster.assign("both", on(n0=2, n1=2))
    cluster.assign("there", on(n1=2))
    assert cluster.remove_node("n1") == ("both", "there")
    assert (cluster.total, cluster.free) == (8, 6)
    assert dict(cluster.held) == {"both": on(n0=2)}


def test_two_nodes_of_one_name_are_refused(cluster: Cluster):
    with pytest.raises(PlacementError, match="node n0 is there already"):
        cluster.add_node(nodes(1)[0])


def test_the_largest_node_goes_and_comes(cluster: Cluster):
    assert cluster.largest_node_gpus == 8
    cluster.remove_node("n0")
    assert cluster.largest_node_gpus == 4
    cluster.add_node(Node("n2", 16))
    cluster.close_node("n2")
    assert cluster.largest_node_gpus == 16
    assert Cluster().largest_node_gpus == 0
