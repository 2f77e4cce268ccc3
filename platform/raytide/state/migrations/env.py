"""Run by alembic, on the connection and in the transaction of whoever opens the store."""

from __future__ import annotations

from alembic import context

from raytide.state.tables import METADATA, VERSION_TABLE

context.configure(
    connection=context.config.attributes["connection"], target_metadata=METADATA, version_table=VERSION_TABLE
)
context.run_migrations()
