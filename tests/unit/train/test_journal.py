"""Numbers of calls, reports and validation passes mean the same on ranks at different places."""

from __future__ import annotations

from raytide.train.validation import Journal


def test_numbers_begin_anew_with_every_step() -> None:
    journal = Journal("r0")
    assert journal.next_call() == (-1, 0)
    journal.begin_step(4)
    assert [journal.next_call(), journal.next_call()] == [(4, 0), (4, 1)]
    assert journal.begin_pass(3) == (4, 0)
    assert [journal.next_report(), journal.next_report()] == [0, 1]
    journal.begin_step(5)
    assert journal.next_call() == (5, 0)
    assert journal.begin_pass(3) == (5, 0)
    assert journal.next_report() == 0


def test_results_are_kept_for_those_one_step_behind() -> None:
    journal = Journal("r0")
    journal.begin_step(4)
    journal.results[4, 0] = [1.0]
    journal.begin_step(5)
    assert (4, 0) in journal.results
    journal.begin_step(6)
    assert not journal.results


def test_a_repeated_step_forgets_its_results() -> None:
    journal = Journal("r0")
    journal.begin_step(4)
    journal.results[4, 0] = [1.0]
    journal.begin_step(4)
    assert not journal.results


def test_merged_records_fill_gaps_and_split_what_is_left() -> None:
    """r2 is lost with what it had evaluated; r1 had left the pass already."""
    journals = {name: Journal(name) for name in ("r0", "r1", "r2")}
    for journal in journals.values():
        journal.begin_step(1)
        journal.begin_pass(6)
    everybody = list(journals)
    parts = {name: journal.to_do((1, 0), everybody) for name, journal in journals.items()}
    assert sorted(n for part in parts.values() for n in part) == list(range(6))
    for name in ("r1", "r2"):
        for number in parts[name]:
            journals[name].consumed((1, 0), number)
    journals["r1"].end_pass((1, 0))
    journals["r1"].results[1, -1] = []
    records = {name: journals[name].encode() for name in ("r0", "r1")}
    for name in ("r0", "r1"):
        journals[name].merge(records)
    assert journals["r0"].to_do((1, 0), ["r0", "r1"]) == sorted(parts["r0"] + parts["r2"])
    assert journals["r0"].results[1, -1] == []
    assert not journals["r0"].lost(["r0", "r1"])


def test_what_nobody_can_evaluate_any_more_is_known() -> None:
    journals = {name: Journal(name) for name in ("r0", "r1")}
    for journal in journals.values():
        journal.begin_step(1)
        key = journal.begin_pass(4)
        for number in journal.to_do(key, ["r0", "r1"]):
            journal.consumed(key, number)
        journal.end_pass(key)
    journals["r0"].merge({"r0": journals["r0"].encode()})
    assert journals["r0"].lost(["r0"]) == {(1, 0): 2}


def test_the_end_of_a_pass_is_no_call_of_the_user() -> None:
    journal = Journal("r0")
    journal.begin_step(2)
    assert journal.end_of(journal.begin_pass(1)) not in {journal.next_call() for _ in range(10)}


def test_takeover_moves_forward_only() -> None:
    journal = Journal("r0")
    journal.begin_step(3)
    journal.next_call()
    journal.takeover(3)
    assert journal.next_call() == (3, 1)
    journal.takeover(5)
    assert journal.next_call() == (5, 0)
