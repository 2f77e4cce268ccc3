"""What the state store promises, on every database."""

from __future__ import annotations

import math
from contextlib import closing
from dataclasses import replace
from threading import Barrier, Thread

import pytest

from raytide.core import JobState, Node, Past, Placement, Role, Tenant, replicas
from raytide.core import events as e
from raytide.core.commands import Start, Wake
from raytide.errors import ConfigError
from raytide.state import JobRow, NewJob, Recorded, Round, StateError, StateStore, StoredTenant, Superseded, Work
from raytide.state.store import PAGE
from support.scheduling import job

WORK = Work("elastic", '{"loop": "a:b"}', {"loop": b"\x80\x00pickle", "config": b""})


def new(name: str, **more) -> NewJob:
    return NewJob(job(name, **more), WORK, f"key of {name}")


def ended(name: str, at_s: float, **more) -> JobRow:
    past = Past(at_s=at_s, state=JobState.FAILED, ended_s=at_s, story=("1.0 s: failed: no luck",))
    return JobRow(job(name, **more), past, {"user": 1}, error="no luck \0 \udcff")


def names(rows) -> list[str]:
    return [row.spec.job for row in rows]


def commit(store: StateStore, number: int = 1, **more) -> int:
    """One round of an incarnation of its own."""
    incarnation = store.begin_incarnation("{}")
    store.commit(Round(incarnation, number, float(number), **more))
    return incarnation


# --- starting ------------------------------------------------------------------------------------


def test_an_empty_store(store):
    saved = store.load()
    assert (saved.jobs, saved.nodes, list(saved.tenants), saved.incarnation, saved.now_s) == ([], [], [], 0, 0.0)


def test_incarnations_are_counted_and_keep_what_they_began_with(store):
    assert [store.begin_incarnation('{"policy": "tide"}'), store.begin_incarnation("{}")] == [1, 2]
    assert (store.setup(1), store.setup(2), store.setup(3)) == ('{"policy": "tide"}', "{}", None)
    assert store.load().incarnation == 2


def test_a_new_job_is_pending_and_keeps_its_work(store):
    handed_in = new("j", at=4.0)
    commit(store, new_jobs=[handed_in])
    row = JobRow(handed_in.spec, Past(at_s=4.0))
    assert store.load().jobs == [(row, WORK)]
    assert store.job("j") == row
    assert store.work("j") == WORK
    assert store.submissions()["key of j"] == "j"


def test_a_new_job_may_have_changed_in_its_round(store):
    shape, place = replicas(2), Placement((("n0", 2),))
    past = Past(5.0, JobState.STARTING, "fits", shape, place, (shape, place), place, 5.0, measured=((shape, math.inf),))
    row = JobRow(job("j", to=4), past, {"node": 2}, "1.1.0")
    commit(store, new_jobs=[new("j", to=4)], jobs=[row])
    assert store.job("j") == row


def test_a_job_changes(store):
    incarnation = commit(store, new_jobs=[new("j"), new("other")])
    row = JobRow(replace(job("j"), roles=(Role("replica", 1, 7),)), Past(at_s=9.0, held=True), request="r")
    store.commit(Round(incarnation, 2, 2.0, jobs=[row]))
    assert store.load().jobs == [(row, WORK), (store.job("other"), WORK)]


def test_jobs_are_loaded_in_the_order_in_which_they_were_handed_in(store):
    incarnation = commit(store, new_jobs=[new(name) for name in "zay"])
    store.commit(Round(incarnation, 2, 2.0, new_jobs=[new("b")], jobs=[ended("a", 2.0)]))
    assert names(row for row, _ in store.load().jobs) == ["z", "y", "b"]


def test_nodes_join_change_and_go(store):
    old, big = Node("n2", 4, "a100", {"rack": "r1"}), Node("n1", 8)
    incarnation = commit(store, nodes=[old, big, Node("n3", 1)])
    changed = replace(old, gpus=2)
    store.commit(Round(incarnation, 2, 2.0, nodes=[changed], nodes_gone=["n3", "unknown"]))
    assert store.load().nodes == [big, changed]


def test_the_clock_goes_on_from_the_last_round(store):
    commit(store, 7)
    commit(store, 3)
    store.begin_incarnation("{}")
    assert store.load().now_s == 3.0


def test_all_of_it_outlives_the_process(url):
    with closing(StateStore(url)) as store:
        commit(store, new_jobs=[new("j")], nodes=[Node("n", 1)])
        before = store.load()
    with closing(StateStore(url)) as store:
        assert store.load() == before


# --- rounds --------------------------------------------------------------------------------------


def test_rounds_are_read_as_they_were_written(store):
    events = (e.Submitted(job("j")), e.Progressed("j", math.inf), e.Crashed("j", "ümlaut\u2028\x1c\n"))
    commands = (Start("j", replicas(1), Placement((("n", 1),)), resume=False), Wake(9.5))
    incarnation = commit(store, events=events, commands=commands)
    store.commit(Round(incarnation, 2, 2.5))
    assert list(store.rounds(incarnation)) == [Recorded(1, 1.0, events, commands), Recorded(2, 2.5, (), ())]
    assert list(store.rounds(incarnation + 1)) == []


def test_any_number_of_rounds_is_read_in_order(store):
    incarnation = store.begin_incarnation("{}")
    for number in range(PAGE + 2):
        store.commit(Round(incarnation, number, float(number)))
    assert [found.number for found in store.rounds(incarnation)] == list(range(PAGE + 2))


@pytest.mark.parametrize(
    "broken",
    [
        {"new_jobs": [new("k"), new("j")]},
        {"new_jobs": [new("k"), NewJob(job("l"), WORK, "key of j")]},
        {"new_jobs": [new("k")], "jobs": [ended("unknown", 1.0), ended("j", 1.0)]},
        {"new_jobs": [new("k")], "number": 1},
    ],
    ids=["a job twice", "a submission twice", "an unknown job", "a round twice"],
)
def test_a_round_that_cannot_be_leaves_nothing(store, broken):
    incarnation = commit(store, new_jobs=[new("j")])
    before = store.load()
    with pytest.raises(StateError):
        store.commit(
            Round(**{"incarnation": incarnation, "number": 2, "now_s": 2.0, "nodes": [Node("n", 1)], **broken})
        )
    assert store.load() == before
    assert len(list(store.rounds(incarnation))) == 1
    store.commit(Round(incarnation, 2, 2.0))


def test_who_was_superseded_writes_nothing(store):
    old = store.begin_incarnation("{}")
    store.begin_incarnation("{}")
    with pytest.raises(Superseded, match="incarnation 2 of the scheduler has taken over from 1"):
        store.commit(Round(old, 1, 1.0, new_jobs=[new("j")]))
    assert store.jobs() == []


# --- questions about jobs ------------------------------------------------------------------------


def test_jobs_are_listed_latest_first(store):
    handed_in = [new("a"), new("b", tenant="u"), new("c"), new("d", tenant="u")]
    commit(store, new_jobs=handed_in, jobs=[ended("c", 3.0), ended("d", 3.0, tenant="u")])
    assert names(store.jobs()) == ["d", "c", "b", "a"]
    assert names(store.jobs(limit=2)) == ["d", "c"]
    assert names(store.jobs(tenant="u")) == ["d", "b"]
    assert names(store.jobs(live_only=True)) == ["b", "a"]
    assert names(store.jobs(tenant="u", live_only=True)) == ["b"]


def test_an_ended_job_is_kept_with_any_error_text(store):
    row = ended("j", 3.0)
    commit(store, new_jobs=[new("j")], jobs=[row])
    assert store.job("j") == row
    assert store.load().jobs == []


def test_what_is_not_there(store):
    assert store.job("j") is None
    assert "key" not in store.submissions()
    with pytest.raises(StateError, match="there is no job j"):
        store.work("j")


def test_what_is_old_is_pruned(store):
    handed_in = [new(name) for name in ("old", "recent", "live")]
    for number in (1, 2, 3):
        ends = [ended("old", 10.0), ended("recent", 20.0)] if number == 1 else []
        commit(store, number, new_jobs=handed_in if number == 1 else [], jobs=ends)
    store.prune(keep_incarnations=2, ended_before_s=20.0)
    assert [len(list(store.rounds(incarnation))) for incarnation in (1, 2, 3)] == [0, 1, 1]
    assert store.setup(1) is None
    assert names(store.jobs()) == ["live", "recent"]
    assert "key of old" not in store.submissions()
    commit(store, 4, new_jobs=[new("old")])
    assert store.work("old") == WORK


def test_the_newest_incarnation_is_never_pruned(store):
    commit(store)
    store.prune(keep_incarnations=0, ended_before_s=math.inf)
    assert len(list(store.rounds(1))) == 1
    assert store.begin_incarnation("{}") == 2


# --- tenants and settings ------------------------------------------------------------------------


def test_tenants_are_put_and_changed(store):
    org = StoredTenant(Tenant("org", guaranteed_gpus=4, limit_gpus=8), "hash", admin=True)
    team = StoredTenant(Tenant("Team", "org", reclaim_after_s=math.inf))
    store.put_tenant(org)
    store.put_tenant(team)
    assert store.tenants() == [team, org]
    store.put_tenant(replace(org, token_hash="other"))
    assert store.tenants() == [team, replace(org, token_hash="other")]
    assert [tenant.tenant for tenant in store.load().tenants] == ["Team", "org"]


def test_tenants_stay_a_tree(store):
    with pytest.raises(ConfigError, match="there is no tenant 'org'"):
        store.put_tenant(StoredTenant(Tenant("team", "org")))
    store.put_tenant(StoredTenant(Tenant("org")))
    store.put_tenant(StoredTenant(Tenant("team", "org")))
    with pytest.raises(ConfigError, match="circle"):
        store.put_tenant(StoredTenant(Tenant("org", "team")))
    with pytest.raises(ConfigError, match="there is no tenant 'org'"):
        store.remove_tenant("org")
    store.remove_tenant("team")
    store.remove_tenant("org")
    assert store.tenants() == []
    with pytest.raises(ConfigError, match="none of this name"):
        store.remove_tenant("org")


def test_settings(store):
    assert store.setting("policy") is None
    store.put_setting("policy", "tide")
    store.put_setting("placer", "pack")
    store.put_setting("policy", "fifo")
    assert (store.setting("policy"), store.setting("placer")) == ("fifo", "pack")


# --- threads -------------------------------------------------------------------------------------


def test_threads_share_a_store(store):
    together, threads, times = Barrier(4), range(4), 20
    incarnation = store.begin_incarnation("{}")

    def use(thread: int) -> None:
        together.wait()
        for number in range(times):
            store.commit(Round(incarnation, thread * times + number, 1.0, new_jobs=[new(f"{thread}.{number}")]))
            assert len(store.load().jobs) > number

    running = [Thread(target=use, args=[thread]) for thread in threads]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    assert len(list(store.rounds(incarnation))) == len(store.jobs()) == 4 * times
