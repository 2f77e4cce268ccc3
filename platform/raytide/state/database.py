"""A database, SQLite or PostgreSQL: how it is opened, and how its transactions begin.

There is one writer at a time on both, so that one contract holds for both: what a writing transaction has read is
still true when it commits.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from raytide.state.errors import StateError

BUSY_S = 30
"""How long a writer waits for the others."""

CONNECT_S = 10
"""How long a PostgreSQL server may take to answer at first."""

WRITERS = 0x7261_7974_6964_65
"""Key of the advisory lock that the writers of a PostgreSQL database share; spells ``raytide``."""


@dataclass(frozen=True, slots=True)
class Database:
    """An open database.

    Attributes:
        place: Its URL without the password, for messages.
    """

    place: str
    _reader: Engine
    _writer: Engine

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A transaction that sees one instant and holds up nobody.

        Raises:
            StateError: The database failed.
        """
        with _clearly(self.place), self._reader.begin() as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """A transaction that is the only writer; after it, what it wrote is on disk.

        Raises:
            StateError: The database failed. Nothing was written, unless it failed during the commit itself: then
                all of it may be there.
        """
        with _clearly(self.place), self._writer.begin() as connection:
            yield connection

    def close(self) -> None:
        """Close all connections."""
        self._reader.dispose()


def connect(text: str) -> Database:
    """The database at a URL; raises :class:`StateError` if it is not one. Connects at the first transaction."""
    url = _parsed(text)
    place = url.render_as_string(hide_password=True)
    if url.get_backend_name() == "sqlite":
        engine = create_engine(url, connect_args={"timeout": BUSY_S, "isolation_level": None})
        event.listen(engine, "connect", _prepare_sqlite)
        event.listen(engine, "begin", _begin_sqlite)
        return Database(place, engine, engine.execution_options(writes=True))
    try:
        # A server may have been restarted since a connection was last used.
        engine = create_engine(url, connect_args={"connect_timeout": CONNECT_S}, pool_pre_ping=True)
    except ImportError as error:
        raise StateError(place, "psycopg is not installed. Try: pip install 'raytide[postgres]'") from error
    event.listen(engine, "begin", _begin_postgres)
    reader = engine.execution_options(isolation_level="REPEATABLE READ")
    return Database(place, reader, engine.execution_options(writes=True))


def _parsed(text: str) -> URL:
    remedy = "Give sqlite:///FILE or postgresql+psycopg://USER@HOST/DATABASE"
    try:
        url = make_url(text)
    except (ArgumentError, ValueError) as error:
        raise StateError("(no URL)", f"what was given is not the URL of a database. {remedy}") from error
    place = url.render_as_string(hide_password=True)
    if url.drivername in ("sqlite", "sqlite+pysqlite"):
        if url.database in (None, "", ":memory:"):
            raise StateError(place, f"it names no file, and would not outlive a restart. {remedy}")
        return url
    if url.drivername in ("postgresql", "postgresql+psycopg"):
        return url.set(drivername="postgresql+psycopg")
    raise StateError(place, f"{url.drivername} is not supported. {remedy}")


@contextmanager
def _clearly(place: str) -> Iterator[None]:
    """Turn what the driver raises into one line."""
    try:
        yield
    except DBAPIError as error:
        lines = str(error.orig).strip().splitlines() or [type(error.orig).__name__]
        raise StateError(place, lines[0]) from error
    except PoolTimeout as error:
        raise StateError(place, "all connections are in use") from error


def _prepare_sqlite(connection: sqlite3.Connection, _: Any) -> None:
    _use_wal(connection)
    connection.execute("PRAGMA synchronous=FULL")  # in WAL mode, NORMAL would lose the last commits with the power
    connection.execute("PRAGMA foreign_keys=ON")


def _use_wal(connection: sqlite3.Connection) -> None:
    """Let readers read while one writes. SQLite does not wait for others here, whatever its time limit."""
    deadline = time.monotonic() + BUSY_S
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def _begin_sqlite(connection: Connection) -> None:
    writes = connection.get_execution_options().get("writes")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _begin_postgres(connection: Connection) -> None:
    if connection.get_execution_options().get("writes"):
        connection.exec_driver_sql(f"SET LOCAL lock_timeout = '{BUSY_S}s'; SELECT pg_advisory_xact_lock({WRITERS})")
