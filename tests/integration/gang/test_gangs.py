"""Gangs on a real cluster: they start whole, end whole, and go on after suspensions and losses."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest
import ray

from raytide.actors import slots
from raytide.actors.gang.crew import Crew
from raytide.actors.gang.layout import slots_of
from raytide.actors.gang.settings import RigidSettings
from raytide.actors.names import NAMESPACE
from raytide.actors.scheduler.masters import RayMasters
from raytide.actors.scheduler.work import rigid_work
from raytide.errors import RequestRefused
from support.gang_jobs import WAIT_S, Rigid, node_ids, rigid
from support.ray_jobs import held_slots

TORCH = """
import json, os, sys
import torch, torch.distributed as dist
dist.init_process_group("gloo", init_method="env://")
value = torch.tensor([float(dist.get_rank() + 1)])
dist.all_reduce(value)
names = "RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE NODE_RANK RAYTIDE_JOB RAYTIDE_CHECKPOINT_DIR RAYTIDE_RESUMED"
found = {name: os.environ.get(name) for name in names.split()} | {"sum": value.item()}
print("the sum is", value.item())
open(f"{sys.argv[1]}/rank{dist.get_rank()}.json", "w").write(json.dumps(found))
dist.destroy_process_group()
"""

FAILING = """
import os, sys, time
if os.environ["RANK"] == "1":
    print("about to fail", flush=True)
    sys.exit("boom")
time.sleep(600)
"""

COUNTING = """
import os, signal, sys, time
from pathlib import Path
saved = Path(os.environ["RAYTIDE_CHECKPOINT_DIR"]) / f"count-{os.environ['RANK']}"
count = int(saved.read_text()) if saved.exists() else 0
assert (count > 0) == (os.environ.get("RAYTIDE_RESUMED") == "1")
def leave(*_):
    saved.write_text(str(count))
    sys.exit(0)
signal.signal(signal.SIGTERM, leave)
while not Path(sys.argv[1], "go").exists():
    count += 1
    Path(sys.argv[1], f"begun-{os.environ['RANK']}").write_text(str(count))
    time.sleep(0.02)
print("counted to", count)
"""

WAITING = """
import os, sys, time
from pathlib import Path
while not Path(sys.argv[1], "go").exists():
    time.sleep(0.02)
"""

SLOW = """
import os, signal, sys, time
from pathlib import Path
folder, rank = Path(sys.argv[1]), os.environ["RANK"]
def leave(*_):
    (folder / f"leaving-{rank}").write_text("yes")
    time.sleep(3)
    (folder / f"saved-{rank}").write_text("yes")
    sys.exit(0)
signal.signal(signal.SIGTERM, leave)
print("ready", flush=True)
while not (folder / "go").exists():
    time.sleep(0.02)
"""

STUBBORN = """
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-c", "import signal, time; signal.signal(15, 1); time.sleep(600)"])
open(f"{sys.argv[1]}/pids", "w").write(f"{os.getpid()} {child.pid}")
time.sleep(600)
"""


def test_a_gang_finds_itself_over_the_environment(scheduler: Any, tmp_path: Path) -> None:
    with rigid(scheduler, tmp_path, TORCH) as job:
        job.start(a=1, b=1)
        job.start(a=1, b=1)  # said again
        ended = job.wait_told("succeeded")
        found = [json.loads((tmp_path / f"rank{rank}.json").read_text()) for rank in range(2)]
        assert [f["sum"] for f in found] == [3.0, 3.0], job.logs()
        assert [f["RANK"] + f["LOCAL_RANK"] + f["NODE_RANK"] for f in found] == ["000", "101"]
        assert {f["WORLD_SIZE"] + f["LOCAL_WORLD_SIZE"] for f in found} == {"21"}
        assert found[0]["RAYTIDE_JOB"] == job.name
        assert Path(found[0]["RAYTIDE_CHECKPOINT_DIR"]).is_dir()
        assert found[0]["RAYTIDE_RESUMED"] is None
        assert ended.released
        assert held_slots(job.name) == []
        assert "the sum is 3.0" in job.call("logs", 1)
        running = job.wait_told("running")
        assert (running.world_size, running.generation) == (2, 1)
        with pytest.raises(RequestRefused, match="has succeeded"):
            job.start("s2", a=1, b=1)


def test_one_failure_ends_all_and_is_told(scheduler: Any, tmp_path: Path) -> None:
    with rigid(scheduler, tmp_path, FAILING) as job:
        job.start(a=2)
        failed = job.wait_told("failed")
        assert failed.released
        assert failed.fault == "user"
        assert failed.error == "rank 1 exited with code 1: about to fail\nboom"
        assert held_slots(job.name) == []


def test_a_suspended_gang_saves_and_goes_on_elsewhere(scheduler: Any, tmp_path: Path) -> None:
    with rigid(scheduler, tmp_path, COUNTING) as job:
        with pytest.raises(RequestRefused, match="runs on 2 slots, not on 3"):
            job.start("s0", a=1, b=2)
        assert held_slots(job.name) == []
        job.start(a=2)
        job.wait_file("begun-0")
        job.wait_file("begun-1")
        with pytest.raises(RequestRefused, match="is rigid"):
            job.call("become", "b1", {node_ids()["node-b"]: 2})
        job.call("become", "b2", {node_ids()["node-a"]: 2})
        job.call("suspend", "p1")
        job.call("suspend", "p1")  # said again
        assert job.view().phase == "suspended"
        assert held_slots(job.name) == []
        counts = [int((tmp_path / "job/state" / f"count-{rank}").read_text()) for rank in range(2)]
        job.start("s2", b=2)
        job.wait_phase("running")
        (tmp_path / "go").touch()
        job.wait_told("succeeded")
        for rank, count in enumerate(counts):
            text = (tmp_path / "job/logs" / f"rank-{rank}.log").read_text()
            assert int(text.split()[-1]) >= count > 0


def test_it_goes_on_while_its_master_is_killed(scheduler: Any, tmp_path: Path) -> None:
    """While it runs, and again while it leaves: nothing is started or answered twice."""
    with rigid(scheduler, tmp_path, SLOW) as job:
        job.start(a=1, b=1)
        job.wait(lambda view: job.logs().count("ready") == 2, "both processes")
        before = job.view()
        first = job.call("pid")
        os.kill(first, signal.SIGKILL)
        after = job.wait(lambda view: any(e.kind == "restarted" for e in view.events), "its master")
        assert job.call("pid") != first
        assert [m.pid for m in after.members] == [m.pid for m in before.members]
        assert after.generation == 1
        job.start(a=1, b=1)  # said again
        suspended = job.master.suspend.remote("p1")
        job.wait_file("leaving-1")
        os.kill(job.call("pid"), signal.SIGKILL)
        ray.get(suspended, timeout=WAIT_S)
        assert (job.view().phase, job.view().generation) == ("suspended", 1)
        assert held_slots(job.name) == []
        assert (tmp_path / "saved-0").exists()
        assert (tmp_path / "saved-1").exists()


def test_slots_of_a_job_whose_master_was_ended_become_free(scheduler: Any, tmp_path: Path) -> None:
    with rigid(scheduler, tmp_path, WAITING, grace_s=1.0) as job:
        job.start(a=2)
        pids = [member.pid for member in job.wait_phase("running").members]
        ray.kill(job.master, no_restart=True)
        deadline_s = time.monotonic() + WAIT_S
        while held_slots(job.name) or any(_lives(pid) for pid in pids):
            assert time.monotonic() < deadline_s
            time.sleep(0.1)


@pytest.mark.parametrize("victim", ["process", "actor"])
def test_a_lost_process_is_forgiven(scheduler: Any, tmp_path: Path, victim: str) -> None:
    with rigid(scheduler, tmp_path, WAITING, lost_nodes=1) as job:
        job.start(a=2)
        before = job.wait_phase("running")
        _kill(job, before.members[1].pid, victim)
        job.wait(lambda view: view.generation == 2 and view.phase == "running", "its second attempt")
        assert not _lives(before.members[0].pid)
        assert not _lives(before.members[1].pid)
        (tmp_path / "go").touch()
        job.wait_told("succeeded")


def _kill(job: Rigid, pid: int, victim: str) -> None:
    if victim == "process":
        os.kill(pid, signal.SIGKILL)
    else:
        ray.kill(ray.get_actor(f"process:{job.name}:1:1", namespace=NAMESPACE))


def test_a_stopped_gang_leaves_nothing(scheduler: Any, tmp_path: Path) -> None:
    """A process that will not leave is killed after its grace, and so is what it has started."""
    with rigid(scheduler, tmp_path, STUBBORN, gpus=1, grace_s=1.0) as job:
        job.start(a=1)
        pids = [int(pid) for pid in job.wait_file("pids").split()]
        job.call("stop", "q1")
        assert held_slots(job.name) == []
        assert [pid for pid in pids if _lives(pid)] == []
        assert job.wait_told("stopped").released


def test_slots_that_are_not_free_hold_nothing(scheduler: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slots, "RESERVE_TIMEOUT_S", 2.5)
    settings = RigidSettings("r", "true", 6, "gang", str(tmp_path), {"CPU": 1.0})
    crew = Crew("crowded", settings, None, lambda event: None)
    known = node_ids()
    with pytest.raises(RequestRefused, match="is not free"):
        crew.reserve(slots_of({known["node-a"]: 1, known["node-b"]: 5}))
    assert held_slots("crowded") == []


def test_the_scheduler_needs_to_know_of_no_difference(scheduler: Any, tmp_path: Path) -> None:
    settings = RigidSettings("r", "sleep 600", 2, "gang", str(tmp_path), {"CPU": 1.0})
    masters, grant = RayMasters(), {node_ids()["node-a"]: 2}
    masters.start("like-others", rigid_work(settings), "s1", grant)
    try:
        masters.scale("like-others", "c1", grant)
        with pytest.raises(RequestRefused, match="is rigid"):
            masters.scale("like-others", "c2", {node_ids()["node-b"]: 2})
        masters.ask("like-others")
        masters.suspend("like-others", "p1")
        masters.start("like-others", rigid_work(settings), "s2", grant)
        masters.stop("like-others", "q1")
        assert held_slots("like-others") == []
    finally:
        masters._end("like-others")


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().split(")")[1].split()[0] != "Z"
    except OSError:
        return False
