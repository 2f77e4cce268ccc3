"""What a job is doing, and the one table of legal changes."""

from __future__ import annotations

from enum import StrEnum


class Phase(StrEnum):
    """What the job is doing; the table of legal changes is :data:`PHASE_EDGES`."""

    STARTING = "starting"
    RUNNING = "running"
    SWITCHING = "switching"
    FENCING = "fencing"
    FORMING = "forming"
    ADOPTING = "adopting"
    SUSPENDED = "suspended"
    SUCCEEDED = "succeeded"
    STOPPED = "stopped"
    FAILED = "failed"


END_PHASES = frozenset({Phase.SUCCEEDED, Phase.STOPPED, Phase.FAILED})

LIVE_PHASES = frozenset({Phase.RUNNING, Phase.SWITCHING, Phase.FORMING, Phase.ADOPTING})
"""A generation exists that a failure would break."""

_END = set(END_PHASES)
# What may befall any live generation: a failure fences it, an exception of the user's loop restarts
# the job from its checkpoint, a new master adopts it, and it may end.
_LIVE = {Phase.FENCING, Phase.STARTING, Phase.ADOPTING} | _END

PHASE_EDGES: dict[Phase, set[Phase]] = {
    # The first replicas of the job, or of its restart or resumption, start: all hold an initial state.
    Phase.STARTING: {Phase.STARTING, Phase.FORMING, Phase.SUSPENDED} | _END,
    # On the active generation (paused or training); a differing target is published once it can be met.
    Phase.RUNNING: {Phase.SWITCHING, Phase.SUSPENDED} | _LIVE,
    # A planned generation is published: it commits a step, or a failure fences it.
    Phase.SWITCHING: {Phase.RUNNING} | _LIVE,
    # Waiting for answers to a fence: survivors form, without any the job starts again.
    Phase.FENCING: {Phase.FENCING, Phase.FORMING, Phase.STARTING} | _END,
    # A generation after a fence (or the first one): all members adopt it, or it fails again.
    Phase.FORMING: {Phase.RUNNING} | _LIVE,
    # A restarted master asks where everybody stands: all is well, or it fences.
    Phase.ADOPTING: {Phase.RUNNING, Phase.SWITCHING} | _LIVE,
    # Saved, without replicas: only a resume or a stop leads out.
    Phase.SUSPENDED: {Phase.STARTING, Phase.STOPPED},
    Phase.SUCCEEDED: set(),
    Phase.STOPPED: set(),
    Phase.FAILED: set(),
}
