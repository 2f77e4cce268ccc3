"""The statements that the methods of the state store are made of, each within a transaction of its caller."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import Any, TypeAlias

from sqlalchemy import Connection, Table, bindparam, delete, func, insert, select, update
from sqlalchemy.sql import ColumnElement

from raytide.core import Past, Tenant, TenantTree
from raytide.core.lifecycle import ENDED
from raytide.state import codec
from raytide.state.records import JobRow, NewJob, Round, StoredTenant
from raytide.state.tables import BLOBS, INCARNATIONS, JOBS, ROUNDS, TENANTS

Columns: TypeAlias = dict[str, Any]

# Made once: to make a statement takes SQLAlchemy longer than to run it.
_NEWEST = select(func.max(INCARNATIONS.c.incarnation))
_INSERT_ROUND = insert(ROUNDS)
_INSERT_JOB = insert(JOBS)
_INSERT_BLOB = insert(BLOBS)
_UPDATE_JOB = update(JOBS).where(JOBS.c.name == bindparam("job"))


def newest_incarnation(connection: Connection) -> int:
    """Number of the newest incarnation; 0 before the first."""
    return connection.scalar(_NEWEST) or 0


def insert_round(connection: Connection, entry: Round) -> None:
    """Write what a round was told and what it answered."""
    columns = {
        "incarnation": entry.incarnation,
        "number": entry.number,
        "now_s": entry.now_s,
        "events": "\n".join(map(codec.dumps_event, entry.events)),
        "commands": "\n".join(map(codec.dumps_command, entry.commands)),
    }
    connection.execute(_INSERT_ROUND, columns)


def insert_jobs(connection: Connection, jobs: Sequence[NewJob], rows: Mapping[str, JobRow]) -> None:
    """Write new jobs in this order; one without a row has just been submitted."""
    columns = [_new_columns(job, rows.get(job.spec.job) or _just_submitted(job)) for job in jobs]
    blobs = [
        {"job": job.spec.job, "name": name, "content": content}
        for job in jobs
        for name, content in job.work.blobs.items()
    ]
    if columns:
        connection.execute(_INSERT_JOB, columns)
    if blobs:
        connection.execute(_INSERT_BLOB, blobs)


def update_jobs(connection: Connection, rows: Collection[JobRow]) -> int:
    """Write what has changed of jobs; returns how many of them there are."""
    if not rows:
        return 0
    changed = [{"job": row.spec.job, **_row_columns(row)} for row in rows]
    return connection.execute(_UPDATE_JOB, changed).rowcount


def _just_submitted(job: NewJob) -> JobRow:
    return JobRow(job.spec, Past(at_s=job.spec.submitted_s))


def _new_columns(job: NewJob, row: JobRow) -> Columns:
    named = {"name": job.spec.job, "tenant": job.spec.tenant, "submission": job.submission}
    return {**named, "kind": job.work.kind, "settings": job.work.settings, **_row_columns(row)}


def _row_columns(row: JobRow) -> Columns:
    past = row.past
    ended_s = past.at_s if past.ended_s is None else past.ended_s
    return {"ended_s": ended_s if past.state in ENDED else None, "row": codec.dumps(row)}


def blobs_of(connection: Connection, which: ColumnElement[bool]) -> Mapping[str, Mapping[str, bytes]]:
    """The blobs of some jobs, by job and by name."""
    found: defaultdict[str, dict[str, bytes]] = defaultdict(dict)
    wanted = select(BLOBS.c.job, BLOBS.c.name, BLOBS.c.content).join(JOBS).where(which)
    for job, name, content in connection.execute(wanted):
        found[job][name] = content
    return found


def stored_tenants(connection: Connection) -> list[StoredTenant]:
    """All tenants, by id."""
    rows = connection.execute(select(TENANTS.c.tenant, TENANTS.c.token_hash, TENANTS.c.admin))
    found = [StoredTenant(codec.loads(Tenant, tenant), token_hash, admin) for tenant, token_hash, admin in rows]
    return sorted(found, key=lambda stored: stored.tenant.tenant)  # here, as databases do not agree on the order


def tree_of(stored: Sequence[StoredTenant]) -> TenantTree:
    """The tree of these tenants; raises :class:`ConfigError` if they make none."""
    return TenantTree(tuple(one.tenant for one in stored))


def replace_rows(connection: Connection, table: Table, rows: Mapping[str, Columns], gone: Sequence[str] = ()) -> None:
    """Put rows, by name, into a table in place of those that have these names or are gone."""
    if names := [*rows, *gone]:
        connection.execute(delete(table).where(table.c.name.in_(names)))
    if rows:
        connection.execute(insert(table), list(rows.values()))
