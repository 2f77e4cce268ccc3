"""Whenever a writer is killed, a whole checkpoint is found afterwards: the one before, or the new one."""

from __future__ import annotations

import importlib.util
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from raytide.elastic.model import Position
from raytide.train.checkpoint import CheckpointError, CheckpointMeta, CheckpointStore

SCRIPT = Path(__file__).with_name("writer.py")
PLATFORM = Path(__file__).parents[3] / "platform"
SPEC = importlib.util.spec_from_file_location("checkpoint_writer", SCRIPT)
writer = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(writer)

NEW_IS_COMPLETE = {"marker in place", "old marker deleted"}
PLANNED = [moment for moment in writer.MOMENTS if moment not in ("never", "storage full")]


class Writers:
    """Starts writers one after the other and reads what they print."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(SCRIPT)],
            env=os.environ | {"PYTHONPATH": str(PLATFORM)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def start(self, root: Path, moment: str, *steps: int) -> None:
        print(json.dumps([str(root), moment, *steps]), file=self.process.stdin, flush=True)

    def read(self) -> tuple[str, str]:
        word, _, rest = self.process.stdout.readline().strip().partition(" ")
        return word, rest

    def run(self, root: Path, moment: str, *steps: int) -> tuple[list[int], int]:
        """Steps written, and the exit code."""
        self.start(root, moment, *steps)
        return self.finish([])

    def finish(self, lines: list[tuple[str, str]]) -> tuple[list[int], int]:
        lines = list(lines)
        while not lines or lines[-1][0] != "ended":
            lines.append(self.read())
        return [int(rest) for word, rest in lines if word == "wrote"], int(lines[-1][1])


@pytest.fixture(scope="module")
def writers():
    started = Writers()
    yield started
    started.process.communicate(timeout=60)


def assert_latest_is_whole(store: CheckpointStore, steps: set[int]) -> int:
    value, meta = store.read(store.latest().path)
    assert meta.position.step in steps
    assert writer.is_whole(value, meta.position.step)
    return meta.position.step


def assert_next_write_prunes(store: CheckpointStore, step: int) -> None:
    new = store.write(writer.state(step), CheckpointMeta("job", Position(step), 2))
    assert store.latest() == new
    assert_latest_is_whole(store, {step})
    assert sorted(p.name for p in Path(store.root).iterdir()) == [Path(c.path).name for c in store.list()]


@pytest.mark.parametrize("moment", PLANNED)
def test_killed_at(writers, tmp_path, moment):
    assert writers.run(tmp_path, moment, 1, 2, 3) == ([1, 2], -signal.SIGKILL), "the fault did not fire"
    store = CheckpointStore(str(tmp_path), keep=2)
    assert_latest_is_whole(store, {3} if moment in NEW_IS_COMPLETE else {2})
    assert_next_write_prunes(store, 4)


@pytest.mark.parametrize("moment", ["tensors half written", "marker not in place", "marker in place"])
def test_killed_while_replacing_a_step(writers, tmp_path, moment):
    assert writers.run(tmp_path, moment, 1, 2, 2) == ([1, 2], -signal.SIGKILL), "the fault did not fire"
    store = CheckpointStore(str(tmp_path), keep=1)
    assert_latest_is_whole(store, {2})
    assert_next_write_prunes(store, 2)


def test_killed_at_random_times(writers, tmp_path):
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    delays = random.Random(seed)
    store, step = CheckpointStore(str(tmp_path), keep=2), 1
    for _ in range(8):
        writers.start(tmp_path, "never", step, step + 1)
        lines = sorted([writers.read(), writers.read()])
        assert [word for word, _ in lines] == ["pid", "wrote"]
        time.sleep(delays.uniform(0, 0.3))
        os.kill(int(lines[0][1]), signal.SIGKILL)
        written, code = writers.finish(lines)
        assert code == -signal.SIGKILL
        step = assert_latest_is_whole(store, {written[-1], written[-1] + 1}) + 1
    assert_next_write_prunes(store, step)


def test_storage_that_refuses_half_way_is_one_clear_error(writers, tmp_path):
    writers.start(tmp_path, "storage full", 1, 9)
    lines = [writers.read() for _ in range(4)]
    (message,) = [rest for word, rest in lines if word == "error"]
    assert "step-000000009: could not be written: OSError" in message
    assert "File too large" in message
    assert [p.name for p in tmp_path.iterdir()] == ["step-000000001"]


def test_two_writers_under_one_root_spoil_nothing(tmp_path):
    stores = [CheckpointStore(str(tmp_path)) for _ in range(2)]
    failed = []

    def write_all(store: CheckpointStore, first: int) -> None:
        for step in range(first, 12, 2):
            try:
                store.write(writer.state(step), CheckpointMeta("job", Position(step), 2))
            except CheckpointError as error:
                failed.append(error)

    threads = [threading.Thread(target=write_all, args=(store, i)) for i, store in enumerate(stores)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=200)
    found = stores[0].list()
    assert len(found) + len(failed) == 12
    assert all(writer.is_whole(c.load(), c.meta.position.step) for c in found)


def test_speed_and_what_training_notices(tmp_path):
    state, store = writer.state(1), CheckpointStore(str(tmp_path), keep=1)
    gaps, done = [0.0], threading.Event()

    def tick() -> None:
        last = time.perf_counter()
        while not done.wait(0.0005):
            gaps.append(time.perf_counter() - last)
            last = time.perf_counter()

    ticking = threading.Thread(target=tick)
    ticking.start()
    seconds = []
    for step in range(5):
        began = time.perf_counter()
        store.write(state, CheckpointMeta("job", Position(step), 2))
        seconds.append(time.perf_counter() - began)
    done.set()
    ticking.join()
    began = time.perf_counter()
    assert writer.is_whole(store.latest().load(), 1)
    reading_s = time.perf_counter() - began
    megabytes = state.size_bytes / 1e6
    print(
        f"{megabytes:.0f} MB: write {megabytes / sorted(seconds)[2]:.0f} MB/s (median of 5, fsynced), ",
        end="",
    )
    print(f"read {megabytes / reading_s:.0f} MB/s, longest wait of another thread {1e3 * max(gaps):.0f} ms")
