"""The state store: the scheduler's journal and its truth, in SQLite or PostgreSQL."""

from raytide.state.errors import StateError, Superseded
from raytide.state.records import JobRow, NewJob, Recorded, Round, Saved, StoredTenant, Work
from raytide.state.store import StateStore

__all__ = [
    "JobRow",
    "NewJob",
    "Recorded",
    "Round",
    "Saved",
    "StateError",
    "StateStore",
    "StoredTenant",
    "Superseded",
    "Work",
]
