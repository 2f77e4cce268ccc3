"""Whether a job can wait for ever: what each policy's docstring promises, and that it holds.

The line is ``Starvation: none`` or ``Starvation: possible``, with what is to be known about it behind.
"""

from __future__ import annotations

import re
from importlib import import_module
from itertools import accumulate

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from raytide.core import Controller, ControllerConfig, Policy, Tenant, TenantTree
from raytide.policies.placement import Pack
from raytide.policies.registry import make_policy, policy_names
from raytide.policies.tide import Tide
from raytide.policies.tide.policy import REVIEW_S_PER_RIGID_JOB
from raytide.sim.simulation import SimJob, Simulation
from raytide.sim.workload import Fixed
from support.scheduling import job, nodes

STREAM = 200
"""Small jobs, which together come for much longer than the large one may wait."""
BEFORE = 12
"""How many of them come before it."""


def promise(policy: str) -> str | None:
    """``none``, ``possible``, or None if the docstring does not say."""
    said = import_module(type(make_policy(policy)).__module__).__doc__ or ""
    found = re.search(r"^Starvation: (none|possible)\b", said, re.MULTILINE)
    return found and found[1]


PATIENCE_S = 20.0
SLACK_S = {"tide": PATIENCE_S + STREAM * REVIEW_S_PER_RIGID_JOB}
"""Tide lets others go first for a while, and then until it reviews all jobs again."""


def make(policy: str) -> Policy:
    """By name; tide with so little patience that the stream is much longer."""
    return Tide(PATIENCE_S) if policy == "tide" else make_policy(policy)


FAIR_ONES = [name for name in policy_names() if promise(name) == "none"]


def wait_s(policy: str, small, *, tenants: TenantTree, gpus: int) -> tuple[float, float]:
    """How long a job of eight GPUs waits in a stream of small jobs, and how long all before it take one by one.

    Args:
        small: Gap, GPUs and duration of each job of the stream.
        gpus: Of the cluster, in nodes of eight.
    """
    times = accumulate(gap_s for gap_s, _, _ in small)
    stream = [
        job(f"s{i}", count, at=at_s, duration_s=length_s, work=length_s)
        for i, (at_s, (_, count, length_s)) in enumerate(zip(times, small, strict=True))
    ]
    large = job("large", 8, at=stream[BEFORE].submitted_s, duration_s=30.0, work=30.0)
    jobs = [*stream[:BEFORE], large, *stream[BEFORE:]]
    config = ControllerConfig(instant=True)
    controller = Controller(make(policy), Pack(), nodes(*[8] * (gpus // 8)), tenants, config)
    Simulation(controller, [SimJob(spec, Fixed(spec.duration_s)) for spec in jobs]).run()
    record = controller.table["large"]
    assert record.first_start_s is not None
    before_s = sum(spec.duration_s for spec in stream[:BEFORE])
    return record.first_start_s - large.submitted_s, before_s + SLACK_S.get(policy, 0.0)


SMALL = st.lists(
    st.tuples(st.sampled_from([0.0, 1.0, 2.0]), st.integers(1, 4), st.sampled_from([3.0, 9.0, 20.0])),
    min_size=1,
    max_size=20,
).map(lambda some: (some * STREAM)[:STREAM])
OVERLOAD = [(1.0, 1, 20.0)] * STREAM
CROWD = ([(0.0, 3, 9.0), (0.0, 3, 20.0)] * STREAM)[:STREAM]
"""All at once: the shorter half of them would keep the older ones waiting until the next review, and the next."""


@pytest.mark.parametrize("policy", policy_names())
def test_every_policy_says_whether_a_job_can_starve(policy):
    assert promise(policy), "its docstring needs a line 'Starvation: none' or 'Starvation: possible, ...'"


@pytest.mark.parametrize("policy", FAIR_ONES)
@settings(max_examples=8, deadline=None)
@given(small=SMALL)
@example(small=OVERLOAD)
@example(small=CROWD)
def test_small_jobs_do_not_keep_a_large_one_waiting(policy, small):
    waited_s, bound_s = wait_s(policy, small, tenants=TenantTree(), gpus=8)
    assert waited_s <= bound_s


@pytest.mark.parametrize("policy", FAIR_ONES)
@settings(max_examples=8, deadline=None)
@given(small=SMALL)
@example(small=OVERLOAD)
@example(small=CROWD)
def test_nor_do_they_at_the_limit_of_its_tenant(policy, small):
    waited_s, bound_s = wait_s(policy, small, tenants=TenantTree([Tenant("t", limit_gpus=8)]), gpus=16)
    assert waited_s <= bound_s


def test_the_stream_would_starve_it():
    """So that the tests above can fail, with tide's bound too."""
    waited_s, bound_s = wait_s("first_fit", OVERLOAD, tenants=TenantTree(), gpus=8)
    assert waited_s > 2 * bound_s
    _, tides_bound_s = wait_s("tide", OVERLOAD, tenants=TenantTree(), gpus=8)
    assert tides_bound_s < waited_s
