from __future__ import annotations

import logging

import pytest

from raytide.actors.scheduler.gate import Gate
from raytide.core import Tenant
from raytide.errors import AccessDenied
from raytide.state import StateStore, StoredTenant
from raytide.submission.access import hash_token, make_token

BOSS, LAB, GROUP = make_token(), make_token(), make_token()


@pytest.fixture
def gate(tmp_path):
    store = StateStore(f"sqlite:///{tmp_path}/state.db")
    made = Gate(store, hash_token(BOSS))
    store.put_tenant(StoredTenant(Tenant("lab"), hash_token(LAB)))
    store.put_tenant(StoredTenant(Tenant("group", parent="lab"), hash_token(GROUP)))
    made.reload()
    yield made
    store.close()


def test_the_first_administrator_is_made_once(tmp_path):
    store = StateStore(f"sqlite:///{tmp_path}/state.db")
    Gate(store, hash_token(BOSS))
    again = Gate(store, hash_token(make_token()))
    assert again.caller(BOSS, "down").admin
    assert [stored.tenant.tenant for stored in store.tenants() if stored.admin] == ["admin"]
    store.close()


def test_who_passes_as_which_tenant(gate):
    assert gate.tenant(GROUP, "", "submission") == "group"
    assert gate.tenant(LAB, "group", "cancel") == "group"
    assert gate.tenant(BOSS, "anybody", "cancel") == "anybody"


@pytest.mark.parametrize(
    ("token", "tenant", "message"),
    [
        (GROUP, "lab", "cancel: tenant lab is not this token's, which is tenant group's"),
        ("rt_wrong", "lab", "the token is no tenant's"),
        ("", "", "no token was given"),
    ],
    ids=["of a tenant below", "wrong", "missing"],
)
def test_who_does_not_pass_is_told_and_logged(gate, caplog, token, tenant, message):
    with caplog.at_level(logging.WARNING), pytest.raises(AccessDenied, match=message) as error:
        gate.tenant(token, tenant, "cancel")
    assert "\n" not in str(error.value)
    assert "cancel" in caplog.text
    assert token not in caplog.text or not token


def test_only_administrators_do_what_is_theirs(gate):
    gate.admin(BOSS, "policy set")
    with pytest.raises(AccessDenied, match="policy set is for administrators; this token is tenant lab's"):
        gate.admin(LAB, "policy set")
