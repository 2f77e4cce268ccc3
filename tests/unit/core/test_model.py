from __future__ import annotations

import pytest

from raytide.core import NOTHING, JobSpec, Node, Placement, Role, Shape, replicas, rigid
from raytide.errors import ConfigError

PS_ROLES = (Role("worker", 1, 8), Role("server", 1, 4, gpus=0))


def test_shapes_count_processes_by_role():
    shape = Shape((("worker", 3), ("server", 1)))
    assert shape["worker"] == 3
    assert shape["replica"] == 0
    assert str(shape) == "3 workers + 1 server"
    assert not NOTHING
    assert str(NOTHING) == "nothing"
    assert replicas(0) == NOTHING
    assert replicas(2) is replicas(2)


def test_a_job_knows_what_its_shapes_hold_and_which_it_admits():
    job = JobSpec("j", "t", 0.0, PS_ROLES, requested=2)
    assert job.least_shape == Shape((("worker", 1), ("server", 1)))
    assert job.requested_shape == Shape((("worker", 2), ("server", 1)))
    assert job.gpus(job.requested_shape) == 2
    assert job.admits(NOTHING)
    assert job.admits(Shape((("worker", 8), ("server", 4))))
    assert not job.admits(Shape((("worker", 9), ("server", 1))))
    assert not job.admits(Shape((("worker", 2),)))


def test_replicas_of_several_gpus():
    job = JobSpec("j", "t", 0.0, (Role("replica", 2, 4, gpus=4),), requested=3)
    assert job.gpus(replicas(3)) == 12


def test_a_rigid_job_has_one_size():
    job = rigid("j", "t", 5.0, 4, 60.0)
    assert job.least_shape == job.requested_shape == replicas(4)
    assert job.gpus(job.requested_shape) == 4


def test_placements():
    placement = Placement((("a", 4), ("b", 2)))
    assert placement.total == 6
    assert placement.nodes == ("a", "b")
    assert not Placement()


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Node("n", 0), "node n: gpus: 0 GPUs"),
        (lambda: Role("r", 0, 1), "role r: from 0 to 1 is no range"),
        (lambda: Role("r", 3, 2), "role r: from 3 to 2 is no range"),
        (lambda: Role("r", 1, 1, gpus=-1), "role r: gpus: -1 is negative"),
        (lambda: JobSpec("j", "t", 0.0, ()), "job j: roles: none, or two of one name"),
        (lambda: JobSpec("j", "t", 0.0, (Role("r", 1, 1), Role("r", 1, 1))), "Give every role once"),
        (lambda: JobSpec("j", "t", 0.0, requested=2), "job j: requested: 2 is outside 1 to 1"),
        (lambda: JobSpec("j", "t", 0.0, duration_s=0.0), "job j: duration_s: 0.0 is not positive"),
        (lambda: JobSpec("j", "t", 0.0, duration_s=float("nan")), "job j: duration_s: nan is not positive"),
    ],
)
def test_what_cannot_be_is_refused_with_its_place(make, words):
    with pytest.raises(ConfigError) as said:
        make()
    assert words in str(said.value)
