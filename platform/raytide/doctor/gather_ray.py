"""Gathering facts about Ray on this machine: who listens where, and what the nodes' clocks show."""

from __future__ import annotations

import http.client
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from raytide.actors import untyped
from raytide.doctor.facts import Clock, Port, RayCluster

GCS, DASHBOARD, CLIENT = 6379, 8265, 10001
_PROBE_S, _HEALTH_S, _TASK_S = 1.0, 20.0, 30.0
_TRIES = 3
_UNAUTHORIZED = (401, 403)


def ports() -> tuple[Port, ...]:
    """The ports of Ray's head on this machine."""
    here = "127.0.0.1"
    gcs, client = listens(here, GCS), listens(here, CLIENT)
    head = gcs and is_healthy(f"{here}:{GCS}")
    status = dashboard_status()
    return (
        Port(GCS, "the head", gcs, head),
        Port(DASHBOARD, "dashboard and job submission", listens(here, DASHBOARD), status in {200, *_UNAUTHORIZED}),
        # It speaks only to clients of its own kind; beside a head it is taken to be Ray's.
        Port(CLIENT, "ray:// clients", client, client and head),
    )


def cluster(environment: Mapping[str, str], home: Path) -> RayCluster:
    """The cluster that a driver would connect to, without its nodes' clocks."""
    known = untyped.last_address() or ""
    chosen = environment.get("RAY_ADDRESS", "")
    address = "" if chosen == "local" else chosen or known
    host, _, port = address.rpartition(":")
    reached = port.isdigit() and listens(host, int(port))
    return RayCluster(
        address,
        is_left_behind=bool(address) and address == known and not reached,
        answers=reached and is_healthy(address),
        auth_mode=environment.get("RAY_AUTH_MODE"),
        has_token=has_token(environment, home),
        demands_token=dashboard_status() in _UNAUTHORIZED,
    )


def has_token(environment: Mapping[str, str], home: Path) -> bool:
    """Whether Ray finds an authentication token."""
    path = environment.get("RAY_AUTH_TOKEN_PATH")
    return bool(environment.get("RAY_AUTH_TOKEN")) or (Path(path) if path else home / ".ray/auth_token").is_file()


def listens(host: str, port: int) -> bool:
    """Whether a connection is accepted."""
    try:
        socket.create_connection((host, port), timeout=_PROBE_S).close()
    except OSError:
        return False
    return True


def is_healthy(address: str) -> bool:
    """Whether a Ray head answers. Asked in a process of its own, as Ray waits for minutes, or ends the process."""
    command = [sys.executable, "-m", "ray.scripts.scripts", "health-check", "--address", address]
    try:
        done = subprocess.run(command, capture_output=True, timeout=_HEALTH_S, check=False)  # noqa: S603 - Ray's own
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


def dashboard_status() -> int:
    """What the dashboard's version page answers, as an HTTP status; 0 if nothing does, or no Ray."""
    connection = http.client.HTTPConnection("127.0.0.1", DASHBOARD, timeout=_PROBE_S)
    try:
        connection.request("GET", "/api/version")
        answer = connection.getresponse()
        return answer.status if answer.status in _UNAUTHORIZED or b"ray_version" in answer.read(4096) else 0
    except (OSError, http.client.HTTPException):
        return 0
    finally:
        connection.close()


def clocks() -> tuple[Clock, ...]:
    """The clock of every node of the connected cluster."""
    alive = [node for node in untyped.nodes() if node["Alive"]]
    return tuple(_clock(node) for node in alive)


def _clock(node: Mapping[str, Any]) -> Clock:
    """A node's clock, by the quickest of some calls: the first one starts a process there."""
    task = untyped.task_on(node["NodeID"], _now_s)
    measured = [_measured(task) for _ in range(_TRIES)]
    ahead_s, uncertain_s = min(measured, key=lambda sample: sample[1])
    return Clock(node["NodeManagerHostname"] or node["NodeManagerAddress"], ahead_s, uncertain_s)


def _measured(task: Any) -> tuple[float, float]:
    asked_s = time.time()
    there_s = float(untyped.get(task.remote(), _TASK_S))
    answered_s = time.time()
    return there_s - (asked_s + answered_s) / 2, (answered_s - asked_s) / 2


def _now_s() -> float:
    return time.time()
