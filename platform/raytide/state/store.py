"""The state store: what the scheduler has to know after a restart, and the journal of how it came to be."""

from __future__ import annotations

from collections.abc import Iterator

from sqlalchemy import delete, insert, select

from raytide.core import Node
from raytide.errors import ConfigError
from raytide.state import codec
from raytide.state.database import connect
from raytide.state.errors import StateError, Superseded
from raytide.state.records import JobRow, Recorded, Round, Saved, StoredTenant, Work
from raytide.state.schema import migrate
from raytide.state.statements import (
    blobs_of,
    insert_jobs,
    insert_round,
    newest_incarnation,
    replace_rows,
    stored_tenants,
    tree_of,
    update_jobs,
)
from raytide.state.tables import INCARNATIONS, JOBS, NODES, ROUNDS, SETTINGS, TENANTS

PAGE = 256
"""Rounds that are read at once."""


class StateStore:
    """The state of one raytide platform in a database. Threads may share it; every method is one transaction.

    Args:
        url: ``sqlite:///FILE`` or ``postgresql+psycopg://USER@HOST/DATABASE``. Opening it brings its schema up to date.

    Raises:
        StateError: From every method: the database cannot be reached, read or written.
    """

    def __init__(self, url: str) -> None:
        self._database = connect(url)
        try:
            migrate(self._database)
        except BaseException:
            self._database.close()
            raise

    def close(self) -> None:
        """Close all connections."""
        self._database.close()

    # --- the scheduler -----------------------------------------------------------------------

    def begin_incarnation(self, setup: str) -> int:
        """A scheduler starts. From now on no other one may write; what :meth:`load` says after this is final.

        Args:
            setup: JSON text of all that its rounds can be replayed with (policy, placer, costs, ...).
        """
        with self._database.writing() as connection:
            incarnation = newest_incarnation(connection) + 1
            connection.execute(insert(INCARNATIONS), {"incarnation": incarnation, "setup": setup})
            return incarnation

    def load(self) -> Saved:
        """All that a scheduler has to go on with."""
        with self._database.reading() as connection:
            live = JOBS.c.ended_s.is_(None)
            blobs = blobs_of(connection, live)
            jobs = connection.execute(
                select(JOBS.c.name, JOBS.c.row, JOBS.c.kind, JOBS.c.settings).where(live).order_by(JOBS.c.seq)
            )
            rows = [(codec.loads(JobRow, row), Work(kind, settings, blobs[name])) for name, row, kind, settings in jobs]
            nodes = [codec.loads(Node, text) for text in connection.scalars(select(NODES.c.node))]
            last = select(ROUNDS.c.now_s).order_by(ROUNDS.c.incarnation.desc(), ROUNDS.c.number.desc()).limit(1)
            return Saved(
                jobs=rows,
                nodes=sorted(nodes, key=lambda node: node.node),
                tenants=tree_of(stored_tenants(connection)),
                incarnation=newest_incarnation(connection),
                now_s=connection.scalar(last) or 0.0,
            )

    def commit(self, entry: Round) -> None:
        """Write a round: all of it, or nothing. When this returns it is on disk.

        Raises:
            Superseded: Another scheduler has started since.
            StateError: Also if a job is new that exists already, or changed that does not. After any error the
                round may have been written or not: go on with a new incarnation and what it loads.
        """
        rows = {row.spec.job: row for row in entry.jobs}
        new = {job.spec.job for job in entry.new_jobs}
        known = [row for name, row in rows.items() if name not in new]
        with self._database.writing() as connection:
            if entry.incarnation != (newest := newest_incarnation(connection)):
                problem = f"incarnation {newest} of the scheduler has taken over from {entry.incarnation}"
                raise Superseded(self._database.place, problem)
            insert_round(connection, entry)
            insert_jobs(connection, entry.new_jobs, rows)
            if update_jobs(connection, known) != len(known):
                names = ", ".join(row.spec.job for row in known)
                raise StateError(self._database.place, f"round {entry.number}: not all of these jobs exist: {names}")
            nodes = {node.node: {"name": node.node, "node": codec.dumps(node)} for node in entry.nodes}
            replace_rows(connection, NODES, nodes, gone=entry.nodes_gone)

    # --- replays -----------------------------------------------------------------------------

    def setup(self, incarnation: int) -> str | None:
        """What the incarnation began with; None if there is none, or no longer."""
        with self._database.reading() as connection:
            found: str | None = connection.scalar(
                select(INCARNATIONS.c.setup).where(INCARNATIONS.c.incarnation == incarnation)
            )
            return found

    def rounds(self, incarnation: int) -> Iterator[Recorded]:
        """The rounds of an incarnation in order, read some at a time."""
        last = -1
        while page := self._page(incarnation, last):
            yield from page
            last = page[-1].number

    def _page(self, incarnation: int, after: int) -> list[Recorded]:
        wanted = select(ROUNDS.c.number, ROUNDS.c.now_s, ROUNDS.c.events, ROUNDS.c.commands)
        wanted = wanted.where(ROUNDS.c.incarnation == incarnation, ROUNDS.c.number > after)
        with self._database.reading() as connection:
            return [
                Recorded(
                    number,
                    now_s,
                    tuple(codec.loads_event(line) for line in events.splitlines()),
                    tuple(codec.loads_command(line) for line in commands.splitlines()),
                )
                for number, now_s, events, commands in connection.execute(wanted.order_by(ROUNDS.c.number).limit(PAGE))
            ]

    # --- questions about jobs ----------------------------------------------------------------

    def job(self, name: str) -> JobRow | None:
        """What is known of a job, ended ones too; None if there is none of this name."""
        with self._database.reading() as connection:
            text = connection.scalar(select(JOBS.c.row).where(JOBS.c.name == name))
            return None if text is None else codec.loads(JobRow, text)

    def jobs(self, *, tenant: str | None = None, live_only: bool = False, limit: int = 1000) -> list[JobRow]:
        """Jobs, those handed in last first.

        Args:
            tenant: Only of this one, not of those below it.
            live_only: Only those that have not ended.
            limit: How many at most.
        """
        wanted = select(JOBS.c.row).order_by(JOBS.c.seq.desc()).limit(limit)
        if tenant is not None:
            wanted = wanted.where(JOBS.c.tenant == tenant)
        if live_only:
            wanted = wanted.where(JOBS.c.ended_s.is_(None))
        with self._database.reading() as connection:
            return [codec.loads(JobRow, text) for text in connection.scalars(wanted)]

    def submissions(self) -> dict[str, str]:
        """Names of all jobs that were ever handed in and not pruned, by the key under which they were."""
        with self._database.reading() as connection:
            rows = connection.execute(select(JOBS.c.submission, JOBS.c.name))
            return {str(key): str(name) for key, name in rows}

    def work(self, name: str) -> Work:
        """What the job's driver needs; raises :class:`StateError` if there is no job of this name."""
        with self._database.reading() as connection:
            found = connection.execute(select(JOBS.c.kind, JOBS.c.settings).where(JOBS.c.name == name)).one_or_none()
            if found is None:
                raise StateError(self._database.place, f"there is no job {name}")
            blobs = blobs_of(connection, JOBS.c.name == name)
            return Work(found.kind, found.settings, blobs[name])

    def prune(self, keep_incarnations: int, ended_before_s: float) -> None:
        """Forget what is old.

        Args:
            keep_incarnations: How many of the newest keep their rounds; the newest one always does.
            ended_before_s: Jobs that ended before this are forgotten, with the keys they were handed in with.
        """
        with self._database.writing() as connection:
            oldest = newest_incarnation(connection) - max(keep_incarnations, 1) + 1
            connection.execute(delete(INCARNATIONS).where(INCARNATIONS.c.incarnation < oldest))
            connection.execute(delete(JOBS).where(JOBS.c.ended_s < ended_before_s))

    # --- tenants and settings ----------------------------------------------------------------

    def tenants(self) -> list[StoredTenant]:
        """All tenants, by id."""
        with self._database.reading() as connection:
            return stored_tenants(connection)

    def put_tenant(self, stored: StoredTenant) -> None:
        """Add a tenant, or change the one of its id; raises :class:`ConfigError` if its parent is not there."""
        name = stored.tenant.tenant
        with self._database.writing() as connection:
            others = [other for other in stored_tenants(connection) if other.tenant.tenant != name]
            tree_of([*others, stored])
            columns = {"tenant": codec.dumps(stored.tenant), "token_hash": stored.token_hash, "admin": stored.admin}
            replace_rows(connection, TENANTS, {name: {"name": name, **columns}})

    def remove_tenant(self, name: str) -> None:
        """Forget a tenant; raises :class:`ConfigError` if there is none, or others are below it."""
        with self._database.writing() as connection:
            known = stored_tenants(connection)
            others = [other for other in known if other.tenant.tenant != name]
            if len(others) == len(known):
                raise ConfigError(f"tenant {name}", "there is none of this name", "Look at the list of tenants")
            tree_of(others)
            replace_rows(connection, TENANTS, {}, gone=[name])

    def setting(self, name: str) -> str | None:
        """A setting of the platform; None if it was never put."""
        with self._database.reading() as connection:
            value: str | None = connection.scalar(select(SETTINGS.c.value).where(SETTINGS.c.name == name))
            return value

    def put_setting(self, name: str, value: str) -> None:
        """Keep a setting."""
        with self._database.writing() as connection:
            replace_rows(connection, SETTINGS, {name: {"name": name, "value": value}})
