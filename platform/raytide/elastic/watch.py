"""What the master concludes from heartbeats: who is silent, and whose programs have parted."""

from __future__ import annotations

from raytide.elastic.model import ReplicaId
from raytide.elastic.state import JobState, Phase, ReplicaRecord

_ANNOUNCE_S = 1.0
"""After one member found the ranks apart, the others have this long to say where they are."""


def silent_replicas(state: JobState, now: float) -> list[tuple[ReplicaId, float]]:
    """Replicas whose silence counts as death, with its length in seconds."""
    found = []
    for name, record in state.replicas.items():
        limit_s = _patience_s(state, name, record)
        if now - record.heard_s > limit_s:
            found.append((name, now - record.heard_s))
    return found


def _patience_s(state: JobState, name: ReplicaId, record: ReplicaRecord) -> float:
    """Members hold up everybody, so their silence counts soon; newcomers import and load, and hold up nobody."""
    limits = state.bounds.limits
    if not record.talked:
        return limits.start_s
    generations = [g for g in (state.active, state.pending) if g is not None]
    if any(name in g.participants() for g in generations):
        return limits.suspect_s
    return limits.suspect_s * limits.newcomer_patience


def divergence(state: JobState, now: float) -> str:
    """Explain how the members' programs have parted; empty while they have not.

    Two signs: members said so in band, or some have been waiting for a collective that others,
    waiting elsewhere or finished, will never join.
    """
    if state.phase not in (Phase.RUNNING, Phase.SWITCHING) or state.active is None:
        return ""
    members = [(rank, state.replicas[r]) for rank, r in enumerate(state.active.members) if r in state.replicas]
    announced = state.diverged_s > 0 and now - state.diverged_s > _ANNOUNCE_S
    if announced or _stuck_apart([record for _, record in members], now, state.bounds.limits.divergence_s):
        places = "; ".join(f"rank {rank} is {_describe(record)}" for rank, record in members)
        return (
            f"the ranks have parted at step {state.position.step}: {places}. Every rank must run the same "
            "steps: use get_context().stop_training() instead of break or return on one rank"
        )
    return ""


def _stuck_apart(records: list[ReplicaRecord], now: float, limit_s: float) -> bool:
    stuck = all(r.finished or (r.waiting_for and now - r.place_since_s > limit_s) for r in records)
    waits = {r.waiting_for for r in records if not r.finished}
    some_finished = any(r.finished for r in records)
    return stuck and bool(waits) and (some_finished or len(waits) > 1)


def _describe(record: ReplicaRecord) -> str:
    if record.finished:
        return f"finished after step {record.finished_at}"
    waiting = f", waiting for {record.waiting_for}" if record.waiting_for and record.waiting_for != "divergence" else ""
    return f"at {record.place}{waiting}"
