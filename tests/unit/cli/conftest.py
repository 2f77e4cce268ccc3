from __future__ import annotations

import pytest

from raytide.actors.views import Event
from unit.cli.building import event, generation


@pytest.fixture
def log() -> list[Event]:
    """A job that grows, migrates, loses a replica and gets another one, shrinks and ends."""
    return [
        event("request", 99.0),
        generation(100.0, "r0", planned=False, step=0),
        event("request", 104.0),
        generation(110.0, "r0", "r1", "r2", pause_s=0.134, bytes_moved=942896),
        event("checkpoint", 111.0),
        event("request", 112.0),
        generation(118.0, "r0", "r2", "r3", pause_s=0.05, bytes_moved=471448),
        event("lost", 120.0, rank=1),
        generation(120.3, "r0", "r3", planned=False, recovery_s=0.3),
        generation(126.0, "r0", "r3", "r4", pause_s=0.05),
        event("request", 127.0),
        generation(127.2, "r0", "r3", pause_s=0.00001),
        event("succeeded", 130.0),
    ]
