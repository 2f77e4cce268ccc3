"""The GPU checks are one program; its dry run on the CPU shows that the program itself works."""

from __future__ import annotations

import json
import os
import subprocess
import sys

KEYS = {"contract_passed", "contract_failed", "resize_pause_s", "memory_leak_bytes", "bandwidth_ratio"}
KEYS |= {"torch_gbps", "raytide_gbps", "nccl_version", "gpu"}


def test_the_dry_run_ends_with_one_json_object() -> None:
    run = subprocess.run(
        [sys.executable, "-m", "gpu.check", "--backend", "gloo", "--only", "group_of_one"],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert run.returncode == 0, run.stdout + run.stderr
    found = json.loads(run.stdout.splitlines()[-1])
    assert found.keys() >= KEYS
    assert found["contract_passed"] > 0
    assert found["contract_failed"] == 0
    assert found["failures"] == []
