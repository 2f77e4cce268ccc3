"""The first schema: incarnations and their rounds, jobs, nodes, tenants, settings."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Make all tables."""
    _make_journal()
    _make_jobs()
    op.create_table(
        "raytide_node",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("node", sa.Text, nullable=False),
    )
    op.create_table(
        "raytide_tenant",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("tenant", sa.Text, nullable=False),
        sa.Column("token_hash", sa.Text, nullable=False),
        sa.Column("admin", sa.Boolean, nullable=False),
    )
    op.create_table(
        "raytide_setting",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("value", sa.Text, nullable=False),
    )


def _make_journal() -> None:
    op.create_table(
        "raytide_incarnation",
        sa.Column("incarnation", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("setup", sa.Text, nullable=False),
    )
    whose = sa.ForeignKey("raytide_incarnation.incarnation", ondelete="CASCADE")
    op.create_table(
        "raytide_round",
        sa.Column("incarnation", sa.Integer, whose, primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("now_s", sa.Double, nullable=False),
        sa.Column("events", sa.Text, nullable=False),
        sa.Column("commands", sa.Text, nullable=False),
    )


def _make_jobs() -> None:
    op.create_table(
        "raytide_job",
        sa.Column("seq", sa.Integer, primary_key=True),
        sa.Column("name", sa.Text, nullable=False, unique=True),
        sa.Column("tenant", sa.Text, nullable=False),
        sa.Column("submission", sa.Text, nullable=False, unique=True),
        sa.Column("ended_s", sa.Double),
        sa.Column("row", sa.Text, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("settings", sa.Text, nullable=False),
    )
    op.create_index("raytide_job_ended", "raytide_job", ["ended_s"])
    op.create_index("raytide_job_tenant", "raytide_job", ["tenant"])
    op.create_table(
        "raytide_blob",
        sa.Column("job", sa.Text, sa.ForeignKey("raytide_job.name", ondelete="CASCADE"), primary_key=True),
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("content", sa.LargeBinary, nullable=False),
    )
