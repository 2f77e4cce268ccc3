"""Opening a store brings its schema up to date, and refuses what it does not understand."""

from __future__ import annotations

from contextlib import closing

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import make_url, text

from raytide.state import StateError, StateStore
from raytide.state.database import connect
from raytide.state.tables import METADATA, VERSION_TABLE
from support.postgres import fresh_database


@pytest.fixture
def database(url):
    with closing(connect(url)) as opened:
        yield opened


def test_the_migrations_make_the_tables_that_the_code_uses(url, database):
    StateStore(url).close()
    with database.reading() as connection:
        context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE})
        assert compare_metadata(context, METADATA) == []


def test_tables_of_others_stay(url, database):
    with database.writing() as connection:
        connection.execute(text("CREATE TABLE job (name TEXT)"))
        connection.execute(text("CREATE TABLE alembic_version (version_num VARCHAR(32))"))
        connection.execute(text("INSERT INTO alembic_version VALUES ('theirs')"))
    with closing(StateStore(url)) as store:
        store.begin_incarnation("{}")
    with database.reading() as connection:
        assert connection.scalar(text("SELECT version_num FROM alembic_version")) == "theirs"


def test_a_newer_schema_is_refused_and_left_alone(url, database):
    StateStore(url).close()
    with database.writing() as connection:
        connection.execute(text(f"UPDATE {VERSION_TABLE} SET version_num = '9999'"))
    with pytest.raises(StateError, match="its schema 9999 is of a newer raytide than this one"):
        StateStore(url)
    with database.reading() as connection:
        assert connection.scalar(text(f"SELECT version_num FROM {VERSION_TABLE}")) == "9999"


def test_migrations_that_fail_leave_nothing(url, database):
    with database.writing() as connection:
        connection.execute(text("CREATE TABLE raytide_setting (name TEXT)"))
    with pytest.raises(StateError, match=r"raytide_setting.* already exists"):
        StateStore(url)
    with database.reading() as connection:
        context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE})
        assert context.get_current_revision() is None
    with database.writing() as connection:
        connection.execute(text("DROP TABLE raytide_setting"))
    StateStore(url).close()


def test_a_server_that_drops_its_connections_is_asked_again(postgres):
    url = fresh_database(postgres)
    name = make_url(url).database
    end = text("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = :name")
    with closing(StateStore(url)) as store, closing(connect(fresh_database(postgres))) as operator:
        store.put_setting("a", "b")
        with operator.writing() as connection:
            assert connection.scalars(end, {"name": name}).all() == [True]
        assert store.setting("a") == "b"


def test_a_database_that_is_not_there(postgres):
    with pytest.raises(StateError, match='database "nowhere" does not exist') as caught:
        StateStore(f"postgresql+psycopg://raytide@/nowhere?host={postgres}")
    assert "\n" not in str(caught.value)
