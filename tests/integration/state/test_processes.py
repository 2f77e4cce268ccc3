"""Several processes and one store: who is killed loses nothing that was acknowledged; nobody is in another's way."""

from __future__ import annotations

import time
from contextlib import closing

from raytide.state import StateStore
from support import state_writer


def killed_after(url, acknowledged: int, seconds: float) -> tuple[int, list[int]]:
    """Kill a writing process; gives its incarnation and the rounds that it was told are written."""
    with state_writer.start("write", url) as process:
        state_writer.go(process)
        lines = [int(process.stdout.readline()) for _ in range(1 + acknowledged)]
        time.sleep(seconds)  # somewhere within a round
        process.kill()
        lines += [int(line) for line in process.stdout.read().splitlines(keepends=True) if line.endswith("\n")]
    assert process.returncode == -9
    return lines[0], lines[1:]


def assert_whole(store, incarnation: int, acknowledged: list[int]) -> None:
    rounds = list(store.rounds(incarnation))
    numbers = [found.number for found in rounds]
    assert numbers[: len(acknowledged)] == acknowledged
    assert len(numbers) <= len(acknowledged) + 1, "at most the one it was killed in"
    jobs = {row.spec.job for row, _ in store.load().jobs if row.spec.job.startswith(f"{incarnation}.")}
    written = [new for number in numbers for new in state_writer.jobs_of(incarnation, number)]
    assert jobs == {new.spec.job for new in written}
    assert [event.spec for found in rounds for event in found.events] == [new.spec for new in written]
    for new in state_writer.jobs_of(incarnation, numbers[-1]):
        assert store.work(new.spec.job) == new.work
        assert store.submissions()[new.submission] == new.spec.job


def test_a_killed_writer_leaves_whole_rounds_and_all_that_were_acknowledged(url):
    histories = [
        killed_after(url, acknowledged, seconds) for acknowledged, seconds in [(1, 0), (20, 0.003), (9, 0.011)]
    ]
    with closing(StateStore(url)) as store:
        for incarnation, acknowledged in histories:
            assert_whole(store, incarnation, acknowledged)
        assert store.begin_incarnation("{}") == 4


def test_processes_may_open_a_new_store_at_once(url):
    processes = [state_writer.start("open", url) for _ in range(3)]
    for process in processes:
        state_writer.go(process)
    said = [process.communicate()[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0, 0]
    assert sorted(said) == ["1\n", "2\n", "3\n"]


def test_a_scheduler_that_was_replaced_cannot_write_and_dies(url, store):
    with state_writer.start("write", url) as process:
        state_writer.go(process)
        assert process.stdout.readline() == "1\n"
        assert store.begin_incarnation("{}") == 2
        written = len(list(store.rounds(1)))
        process.stdin.close()
        assert process.wait(60) == 1
    assert len(list(store.rounds(1))) == written
