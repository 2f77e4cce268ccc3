"""What happens to workers when the training process ends, and to datasets of its ``__main__``."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

PLATFORM = Path(__file__).parents[3] / "platform"

# No "if __name__" guard on purpose: a worker that ran this file again would start workers for ever.
SCRIPT = """
import os, sys, time
from raytide.train.data import IndexLoader, LoaderOptions, LocalBatch

print("main", os.getpid(), flush=True)
FACTOR = 3

class Point:
    def __init__(self, value):
        self.value = value

class Mine:
    def __len__(self):
        return 10
    def __getitem__(self, index):
        return Point(index * FACTOR)

def collate(samples):
    return samples

loader = IndexLoader(Mine(), LoaderOptions(num_workers=2, collate_fn=collate))
for batch, points in loader.load(LocalBatch(0, step, 0, 1, (step, 9), 1.0) for step in range(4)):
    assert all(type(point) is Point for point in points)
    print("batch", *(point.value for point in points), flush=True)
print("workers", *loader.worker_pids, flush=True)
"""
ENDINGS = {
    "waits": "time.sleep(60)",
    "busy": "list(loader.load(LocalBatch(0, s, 0, 1, tuple(range(10)), 1.0) for s in range(10**9)))",
    "ends": "sys.exit(0)",
    "raises": "raise RuntimeError('on purpose')",
    "closes": "loader.close(); print('closed', flush=True); time.sleep(60)",
}


@pytest.fixture
def run(tmp_path):
    processes = []

    def run(ending):
        script = tmp_path / "train.py"
        script.write_text(SCRIPT + ENDINGS[ending])
        environment = os.environ | {"PYTHONPATH": str(PLATFORM)}
        processes.append(subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, text=True, env=environment))
        return processes[-1]

    yield run
    for process in processes:
        process.kill()
        process.communicate()


def lines_until(process, word):
    lines = []
    for line in process.stdout:
        lines.append(line.split())
        if lines[-1][0] == word:
            return lines
    raise AssertionError(f"the script ended before {word!r}: {lines}")


def running(pid):
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def seconds_until_gone(pids):
    started = time.monotonic()
    while any(running(pid) for pid in pids):
        if time.monotonic() - started > 20:
            raise AssertionError("workers outlived their parent by 20 s")
        time.sleep(0.01)
    return time.monotonic() - started


def test_datasets_of_an_unguarded_script_work_and_it_runs_once(run):
    lines = lines_until(run("waits"), "workers")
    assert [line[0] for line in lines] == ["main", "batch", "batch", "batch", "batch", "workers"]
    assert [line[1:] for line in lines[1:5]] == [["0", "27"], ["3", "27"], ["6", "27"], ["9", "27"]]


@pytest.mark.parametrize("ending", ["waits", "busy"])
def test_workers_end_with_a_killed_parent(run, ending):
    process = run(ending)
    pids = [int(pid) for pid in lines_until(process, "workers")[-1][1:]]
    assert all(running(pid) for pid in pids)
    process.send_signal(signal.SIGKILL)
    assert seconds_until_gone(pids) < 5.0


@pytest.mark.parametrize("ending", ["ends", "raises"])
def test_workers_end_with_a_script_that_forgot_to_close(run, ending):
    process = run(ending)
    pids = [int(pid) for pid in lines_until(process, "workers")[-1][1:]]
    process.wait(20)
    assert seconds_until_gone(pids) < 5.0


def test_close_takes_the_workers_and_leaves_the_parent(run):
    process = run("closes")
    pids = [int(pid) for pid in lines_until(process, "workers")[-1][1:]]
    lines_until(process, "closed")
    assert not any(running(pid) for pid in pids)
    assert process.poll() is None


def test_a_stopped_worker_ends_with_its_parent_too(run):
    """Only the kernel's death signal reaches a process that cannot run."""
    process = run("waits")
    pids = [int(pid) for pid in lines_until(process, "workers")[-1][1:]]
    os.kill(pids[0], signal.SIGSTOP)
    process.send_signal(signal.SIGKILL)
    assert seconds_until_gone(pids) < 5.0
