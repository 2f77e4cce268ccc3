"""Brings a database to the schema of this version."""

from __future__ import annotations

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory

from raytide.state.database import Database
from raytide.state.errors import StateError
from raytide.state.tables import VERSION_TABLE

MIGRATIONS = Path(__file__).parent / "migrations"


def migrate(database: Database) -> None:
    """Run the migrations that have not been run yet: all of them, or none. Others who open meanwhile wait.

    Raises:
        StateError: A newer version of raytide has been here, or the database failed.
    """
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    known = {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}
    with database.writing() as connection:
        context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE})
        found = context.get_current_revision()
        if found is not None and found not in known:
            problem = f"its schema {found} is of a newer raytide than this one (which knows up to {max(known)})"
            raise StateError(database.place, f"{problem}. Install that version, or restore a backup")
        config.attributes["connection"] = connection
        command.upgrade(config, "head")
