"""Random histories of one job: whatever happens to it, it keeps its promises.

``World`` checks them after every event: no step twice, no history but one, no step undone while a
survivor had it, no slot held twice, the size within its bounds, every request answered once, no replica
left behind, and rest in bounded time once nothing happens any more. A failing history prints its log.
"""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from elastic_sim.story import Deed, Story, Teller
from raytide.elastic.effects import Note
from raytide.elastic.state import Phase

EXAMPLES = int(os.environ.get("RAYTIDE_HISTORIES", "150"))
FAULTS = ("kill", "freeze", "glitch", "crash")
RESIZES = ("scale_out", "scale_in", "migrate", "full_swap")
HALTS = ("checkpoint", "suspend")
ENDS = ("stop", "raise")
PHASES = (
    Phase.STARTING,
    Phase.RUNNING,
    Phase.SWITCHING,
    Phase.FENCING,
    Phase.FORMING,
    Phase.ADOPTING,
    Phase.SUSPENDED,
)

told = settings(
    max_examples=EXAMPLES,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def deeds(*kinds: str):
    """Deeds at a time, or soon after a phase begins."""
    what, who, how = st.sampled_from(kinds), st.integers(0, 5), st.integers(0, 7)
    timed = st.builds(Deed, what, st.floats(0.0, 4.0), st.none(), who, how)
    phased = st.builds(Deed, what, st.floats(0.0, 0.4), st.sampled_from(PHASES), who, how)
    return st.lists(timed | phased, max_size=8).map(tuple)


@st.composite
def stories(draw: st.DrawFn, *kinds: str, **fixed: object) -> Story:
    low = draw(st.integers(1, 3))
    high = draw(st.integers(low, 6))
    story = {
        "seed": draw(st.integers(0, 1 << 20)),
        "replicas": draw(st.integers(low, high)),
        "low": low,
        "high": high,
        "deeds": draw(deeds(*kinds)),
        "steps": draw(st.sampled_from((0, 0, 0, 4, 12))),
        "depth": draw(st.integers(0, 2)),
        "replace_lost": draw(st.booleans()),
        "save_fails": draw(st.sampled_from((0.0, 0.5))),
        "gathers": draw(st.booleans()),
        **fixed,
    }
    return Story(**story)


@told
@given(stories(*FAULTS))
def test_failures(story):
    Teller(story).tell()


@told
@given(stories(*RESIZES))
def test_resizes(story):
    world = Teller(story).tell()
    fences = [n for n in world.notes if n.kind == "fence"]
    assert not fences, "a resize without failures never needs a fence"


@told
@given(stories(*FAULTS, *RESIZES))
def test_failures_and_resizes(story):
    assert Teller(story).tell().ended.phase is Phase.SUCCEEDED


@told
@given(stories(*FAULTS, *RESIZES, *HALTS, *ENDS))
def test_everything(story):
    Teller(story).tell()


@told
@given(stories(*RESIZES, *HALTS, "crash"))
def test_masters_that_die(story):
    Teller(story).tell()


@settings(told, max_examples=EXAMPLES // 2)
@given(stories("crash", steps=60))
def test_the_death_of_the_master_stops_no_step(story):
    teller = Teller(story)
    world = teller.tell()
    down = [n for n in world.notes if n.kind == "master_restarted" and "running" not in n.text]
    if not down:
        gaps = [b - a for a, b in zip(world.applied_at, world.applied_at[1:], strict=False)]
        assert max(gaps, default=0.0) < 0.3
        assert not _fences(world.notes)


@settings(told, max_examples=EXAMPLES // 2)
@given(stories("kill", "freeze", max_failures=1))
def test_a_budget_of_losses_ends_the_job_or_lets_it_finish(story):
    assert Teller(story).tell().ended.phase in (Phase.SUCCEEDED, Phase.FAILED)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("phase", [Phase.FORMING, Phase.RUNNING, Phase.SWITCHING, Phase.FENCING, Phase.ADOPTING])
def test_the_master_dies_in_each_phase_of_a_resize_with_a_loss(phase, seed):
    story = Story(
        seed,
        replicas=3,
        low=2,
        high=5,
        deeds=(
            Deed("scale_out", 1.5),
            Deed("kill", 0.05, Phase.SWITCHING, who=seed % 4),
            Deed("crash", 0.001 * seed, phase, how=seed % 7),
        ),
        steps=0,
    )
    assert Teller(story).tell().ended.phase is Phase.SUCCEEDED


@pytest.mark.parametrize("seed", range(20))
def test_a_frozen_member_that_wakes_changes_nothing(seed):
    """It is given up, the others go on without it, and it leaves when it hears of that."""
    deeds_ = (Deed("freeze", 1.5 + seed / 40, who=seed, how=3),)
    world = Teller(Story(seed, replicas=3, low=1, high=3, deeds=deeds_, steps=0)).tell()
    assert world.ended.phase is Phase.SUCCEEDED
    assert [n.data["replica"] for n in world.notes if n.kind == "lost"]


def _fences(notes: list[Note]) -> list[Note]:
    return [n for n in notes if n.kind == "fence"]
