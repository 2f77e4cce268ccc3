"""A Ray cluster whose nodes a real autoscaler (v2) starts and ends, as processes of this machine."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import ray
from ray.autoscaler._private.fake_multi_node.node_provider import FAKE_HEAD_NODE_ID

PORT = 6379
"""The provider assumes it."""

START_S = 60.0


def port_is_free() -> bool:
    """Whether nobody listens on the port."""
    with socket.socket() as probe:
        probe.settimeout(1.0)
        return probe.connect_ex((ray.util.get_node_ip_address(), PORT)) != 0


def config(node_types: Mapping[str, Any], idle_s: float) -> dict[str, Any]:
    """A cluster file as the autoscaler reads it; Ray ships no example of it."""
    head = {"resources": {"CPU": 0}, "node_config": {}, "max_workers": 0}
    return {
        "cluster_name": "fake",
        "max_workers": 8,
        "upscaling_speed": 100.0,
        "idle_timeout_minutes": idle_s / 60.0,
        "provider": {
            "type": "external",
            "module": "ray.autoscaler._private.fake_multi_node.node_provider.FakeMultiNodeProvider",
            "launch_multiple": True,
            "head_node_id": FAKE_HEAD_NODE_ID,
        },
        "available_node_types": {"ray.head.default": head, **node_types},
        "head_node_type": "ray.head.default",
        "auth": {},
        "cluster_synced_files": [],
        "file_mounts": {},
        "file_mounts_sync_continuously": False,
        "rsync_exclude": [],
        "rsync_filter": [],
        "initialization_commands": [],
        "setup_commands": [],
        "head_setup_commands": [],
        "worker_setup_commands": [],
        "head_start_ray_commands": [],
        "worker_start_ray_commands": [],
    }


@contextmanager
def fake_cloud(node_types: Mapping[str, Any], idle_s: float) -> Iterator[Path]:
    """A head without slots, connected; its folder, which has Ray's logs, is removed at the end.

    Args:
        node_types: What the cloud has, as in ``available_node_types`` of a cluster file.
        idle_s: After which an idle node is ended.
    """
    folder = Path(tempfile.mkdtemp(prefix="rt-", dir="/tmp"))  # sockets lie in it, whose paths are short
    written = folder / "cluster.json"
    written.write_text(json.dumps(config(node_types, idle_s)))
    command = ["start", "--head", f"--port={PORT}", "--num-cpus=0", "--num-gpus=0", "--include-dashboard=false"]
    command += ["--block", "--disable-usage-stats", f"--temp-dir={folder}/ray", f"--autoscaling-config={written}"]
    environment = {
        **os.environ,
        "RAY_AUTH_MODE": "disabled",
        "RAY_FAKE_CLUSTER": "1",
        "RAY_enable_autoscaler_v2": "1",
        "AUTOSCALER_UPDATE_INTERVAL_S": "1",
        "RAY_CLOUD_INSTANCE_ID": FAKE_HEAD_NODE_ID,
        "RAY_OVERRIDE_NODE_ID_FOR_TESTING": FAKE_HEAD_NODE_ID,
    }
    with (folder / "head.log").open("w") as log:
        head = subprocess.Popen(
            [sys.executable, "-m", "ray.scripts.scripts", *command], env=environment, stdout=log, stderr=log
        )
    try:
        _connect(head, folder)
        yield folder
    finally:
        ray.shutdown()
        _end(head)
        shutil.rmtree(folder, ignore_errors=True)


def _connect(head: subprocess.Popen[bytes], folder: Path) -> None:
    deadline_s = time.monotonic() + START_S
    while port_is_free():
        said = (folder / "head.log").read_text()[-2000:]
        assert head.poll() is None, f"the head ended: {said}"
        assert time.monotonic() < deadline_s, f"the head does not come up: {said}"
        time.sleep(0.2)
    address = f"{ray.util.get_node_ip_address()}:{PORT}"
    ray.init(address=address, log_to_driver=False, logging_level="ERROR")


def _end(head: subprocess.Popen[bytes]) -> None:
    """The head and every node that its autoscaler started."""
    known = psutil.Process(head.pid).children(recursive=True) if head.poll() is None else []
    head.terminate()
    _, alive = psutil.wait_procs([psutil.Process(head.pid), *known] if known else [], timeout=10)
    for process in alive:
        process.kill()
    head.wait(10)
