from __future__ import annotations

import pytest

from raytide.core import Node
from raytide.errors import ConfigError
from raytide.sim import parse_cluster


def test_clusters():
    assert parse_cluster("2x8") == [Node("n0", 8), Node("n1", 8)]
    assert parse_cluster("1x8:A100, 2x4:T4") == [Node("n0", 8, "A100"), Node("n1", 4, "T4"), Node("n2", 4, "T4")]


@pytest.mark.parametrize(
    "text", ["", "16", "x8", "16x", "16*8", "-1x8", "1.5x8", "2x8,", "2x8:", "2x8:A 100", "٣x8", "16x8x2", "fifo"]
)
def test_nonsense_is_refused(text):
    with pytest.raises(ConfigError, match=r"is no group of nodes. Write NODESxGPUS"):
        parse_cluster(text)


@pytest.mark.parametrize("text", ["0x8", "8x0", "1x8,0x4"])
def test_a_cluster_has_gpus(text):
    with pytest.raises(ConfigError, match="has no GPUs"):
        parse_cluster(text)


def test_a_slip_of_the_hand_does_not_fill_the_memory():
    with pytest.raises(ConfigError, match="more than 100,000 nodes"):
        parse_cluster("1x8,99999999999x8")
