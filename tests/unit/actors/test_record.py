"""What a master remembers, and what a restarted one finds."""

from __future__ import annotations

from pathlib import Path

from raytide.actors.record import JournalFile, Record
from raytide.elastic.model import Bounds, Slot
from raytide.elastic.state import JobState, ReplicaRecord
from raytide.train.services import Report


def test_the_lowest_rank_is_heard() -> None:
    record = Record()
    record.take(Report(step=7, epoch=0, index=0, rank=1, metrics={"loss": 2.0}))
    record.take(Report(step=7, epoch=0, index=0, rank=0, metrics={"loss": 1.0}))
    record.take(Report(step=7, epoch=0, index=0, rank=2, metrics={"loss": 3.0}))
    assert record.metrics() == {"loss": 1.0}


def test_a_repeated_report_replaces_the_first() -> None:
    record = Record()
    for loss in (2.0, 1.5):
        record.take(Report(step=3, epoch=0, index=0, rank=0, metrics={"loss": loss}))
    record.take(Report(step=9, epoch=1, index=0, rank=0, metrics={"loss": 1.0}))
    assert record.rows() == [{"step": 3, "epoch": 0, "loss": 1.5}, {"step": 9, "epoch": 1, "loss": 1.0}]


def test_events_are_numbered() -> None:
    record = Record()
    record.note("a", "first", {})
    record.note("b", "second", {"pause_s": 0.1})
    assert [(e.number, e.kind) for e in record.events] == [(0, "a"), (1, "b")]


def test_events_keep_their_numbers_over_a_restart(tmp_path: Path) -> None:
    """Who has heard 250 events asks for the 250th of a master that remembers the last 200 only."""
    record = Record()
    for i in range(250):
        record.note("a", f"event {i}", {})
    JournalFile(str(tmp_path), "run1").save(JobState("job", Bounds(1, 1)), {}, record)
    found = JournalFile(str(tmp_path), "run1").load()
    assert found is not None
    remembered = found[2]
    remembered.note("b", "after", {})
    assert [(e.number, e.text) for e in remembered.since(249)] == [(249, "event 249"), (250, "after")]
    assert len(remembered.since(0)) == 201


def test_journal_survives_as_a_whole(tmp_path: Path) -> None:
    state = JobState("job", Bounds(1, 4))
    state.replicas["r0"] = ReplicaRecord(Slot("node", 0), 2.0)
    record = Record()
    record.note("generation", "one", {"world_size": 1, "members": ("r0",)})
    record.take(Report(step=1, epoch=0, index=0, rank=0, metrics={"loss": 1.0}))
    JournalFile(str(tmp_path), "run1").save(state, {"r0": "replica:job:r0"}, record)

    found = JournalFile(str(tmp_path), "run1").load()
    assert found is not None
    again, names, remembered = found
    assert again == state
    assert names == {"r0": "replica:job:r0"}
    assert [e.text for e in remembered.events] == ["one"]
    assert remembered.metrics() == {"loss": 1.0}


def test_journal_of_a_new_job_is_empty(tmp_path: Path) -> None:
    journal = JournalFile(str(tmp_path / "new"), "run1")
    assert journal.load() is None
    journal.save(JobState("job", Bounds(1, 1)), {}, Record())
    journal.remove()
    assert journal.load() is None


def test_half_a_journal_is_never_read(tmp_path: Path) -> None:
    journal = JournalFile(str(tmp_path), "run1")
    journal.save(JobState("job", Bounds(1, 1)), {}, Record())
    (tmp_path / "journal.json.part").write_text('{"state": {')
    assert journal.load() is not None


def test_journal_of_an_earlier_run_of_the_same_name_is_ignored(tmp_path: Path) -> None:
    JournalFile(str(tmp_path), "run1").save(JobState("job", Bounds(1, 1)), {}, Record())
    assert JournalFile(str(tmp_path), "run2").load() is None
