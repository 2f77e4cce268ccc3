"""The tables, as the newest migration leaves them.

What is looked up has a column of its own; everything else is JSON text of :mod:`raytide.state.codec`. Names carry a
prefix, because an organisation's database may hold tables of others.
"""

from __future__ import annotations

from sqlalchemy import (
    Boolean,
    Column,
    Double,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
)

METADATA = MetaData()

VERSION_TABLE = "raytide_schema"
"""Where alembic keeps which migrations were run."""

INCARNATIONS = Table(
    "raytide_incarnation",
    METADATA,
    Column("incarnation", Integer, primary_key=True, autoincrement=False),
    Column("setup", Text, nullable=False),
)

ROUNDS = Table(
    "raytide_round",
    METADATA,
    Column("incarnation", Integer, ForeignKey("raytide_incarnation.incarnation", ondelete="CASCADE"), primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("now_s", Double, nullable=False),
    Column("events", Text, nullable=False),  # a line each
    Column("commands", Text, nullable=False),  # a line each
)

JOBS = Table(
    "raytide_job",
    METADATA,
    Column("seq", Integer, primary_key=True),  # the order in which they were handed in
    Column("name", Text, nullable=False, unique=True),
    Column("tenant", Text, nullable=False),
    Column("submission", Text, nullable=False, unique=True),
    Column("ended_s", Double),  # NULL while it lives
    Column("row", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("settings", Text, nullable=False),
    Index("raytide_job_ended", "ended_s"),
    Index("raytide_job_tenant", "tenant"),
)

BLOBS = Table(
    "raytide_blob",
    METADATA,
    Column("job", Text, ForeignKey("raytide_job.name", ondelete="CASCADE"), primary_key=True),
    Column("name", Text, primary_key=True),
    Column("content", LargeBinary, nullable=False),
)

NODES = Table(
    "raytide_node",
    METADATA,
    Column("name", Text, primary_key=True),
    Column("node", Text, nullable=False),
)

TENANTS = Table(
    "raytide_tenant",
    METADATA,
    Column("name", Text, primary_key=True),
    Column("tenant", Text, nullable=False),
    Column("token_hash", Text, nullable=False),
    Column("admin", Boolean, nullable=False),
)

SETTINGS = Table(
    "raytide_setting",
    METADATA,
    Column("name", Text, primary_key=True),
    Column("value", Text, nullable=False),
)
