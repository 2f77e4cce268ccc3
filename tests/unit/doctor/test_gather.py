from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from raytide.actors import untyped
from raytide.doctor import gather, gather_ray


@contextmanager
def answering(status: int, body: bytes) -> Iterator[int]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args):
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port
        server.shutdown()


@pytest.fixture
def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def test_software_is_what_the_metadata_demands():
    found = gather.software()
    assert found.python_fits
    ray = next(package for package in found.packages if package.name == "ray")
    assert ray.fits
    assert ray.demanded.startswith(">=2")
    assert not {"pytest", "cupy-cuda12x"} & {package.name for package in found.packages}


def test_a_package_may_be_missing_or_too_old(monkeypatch):
    monkeypatch.setattr("importlib.metadata.requires", lambda name: ["no-such-package>=1", "pytest>=1,<2"])
    missing, other = gather.software().packages
    assert (missing.found, missing.fits, other.fits) == ("", False, False)


def test_the_driver_tells_gpus_and_version(tmp_path, monkeypatch):
    tool = tmp_path / "nvidia-smi"
    tool.write_text("#!/bin/sh\necho 'NVIDIA H200, 580.1'\necho 'NVIDIA H200, 580.1'\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    found = gather.gpus()
    assert (found.names, found.driver) == (("NVIDIA H200",) * 2, "580.1")
    tool.write_text("#!/bin/sh\nexit 9\n")
    assert gather.gpus().names == ()


def test_room_is_looked_up_where_the_folder_will_be(tmp_path):
    found = gather.disk(str(tmp_path / "a/b"))
    assert found.is_writable
    assert found.free_bytes > 0
    assert found.path == str(tmp_path / "a/b")
    file = tmp_path / "file"
    file.touch()
    assert not gather.disk(str(file)).is_writable
    assert gather.disk("s3://bucket/x").is_url


def test_limits_and_memory_are_there(tmp_path):
    found = gather.machine(str(tmp_path))
    assert found.memory_bytes > 0
    assert found.open_files > 0


@pytest.mark.parametrize(
    ("status", "body", "seen"),
    [(200, b'{"ray_version": "2.60.0"}', 200), (200, b"<html>", 0), (401, b"", 401), (404, b"", 0)],
)
def test_a_dashboard_is_known_by_its_version_page(monkeypatch, status, body, seen):
    with answering(status, body) as port:
        monkeypatch.setattr(gather_ray, "DASHBOARD", port)
        assert gather_ray.dashboard_status() == seen


def test_nothing_may_answer(monkeypatch, free_port):
    monkeypatch.setattr(gather_ray, "DASHBOARD", free_port)
    assert gather_ray.dashboard_status() == 0
    assert not gather_ray.listens("127.0.0.1", free_port)


def test_a_token_is_found_where_ray_looks(tmp_path):
    assert not gather_ray.has_token({}, tmp_path)
    assert gather_ray.has_token({"RAY_AUTH_TOKEN": "x"}, tmp_path)
    file = tmp_path / ".ray/auth_token"
    file.parent.mkdir()
    file.touch()
    assert gather_ray.has_token({}, tmp_path)
    assert not gather_ray.has_token({"RAY_AUTH_TOKEN_PATH": str(tmp_path / "none")}, tmp_path)


@pytest.mark.parametrize(
    ("environment", "left", "is_left_behind"),
    [
        ({}, True, True),
        ({}, False, False),
        ({"RAY_ADDRESS": "local"}, True, False),
        ({"RAY_ADDRESS": "x"}, True, False),
    ],
)
def test_a_dead_cluster_may_have_left_its_address(monkeypatch, tmp_path, free_port, environment, left, is_left_behind):
    monkeypatch.setattr(untyped, "last_address", lambda: f"127.0.0.1:{free_port}" if left else None)
    monkeypatch.setattr(gather_ray, "dashboard_status", lambda: 401)
    found = gather_ray.cluster({**environment, "RAY_AUTH_MODE": "token"}, tmp_path)
    assert (found.is_left_behind, found.answers) == (is_left_behind, False)
    assert (found.auth_mode, found.has_token, found.demands_token) == ("token", False, True)


def test_the_quickest_call_tells_the_clock_best(monkeypatch):
    node = {"Alive": True, "NodeID": "n", "NodeManagerHostname": "host", "NodeManagerAddress": "10.0.0.1"}
    samples = iter([(5.0, 4.0), (1.0, 0.1), (2.0, 0.2)])
    monkeypatch.setattr(untyped, "nodes", lambda: [node, {"Alive": False}])
    monkeypatch.setattr(untyped, "task_on", lambda node, function: None)
    monkeypatch.setattr(gather_ray, "_measured", lambda task: next(samples))
    (clock,) = gather_ray.clocks()
    assert (clock.node, clock.ahead_s, clock.uncertain_s) == ("host", 1.0, 0.1)
