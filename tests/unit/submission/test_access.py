from __future__ import annotations

import re

import pytest

from raytide.core import Tenant, TenantTree
from raytide.errors import AccessDenied
from raytide.submission.access import Caller, Credential, hash_token, make_token, may_change, who

MINE, OPERATORS = make_token(), make_token()
KNOWN = [
    Credential("without", ""),
    Credential("vision", hash_token(MINE)),
    Credential("operators", hash_token(OPERATORS), admin=True),
]
TREE = TenantTree([Tenant("research"), Tenant("vision", "research"), Tenant("faces", "vision"), Tenant("operators")])


def test_tokens_are_long_and_never_the_same():
    assert re.fullmatch(r"rt_[\w-]{43}", MINE)
    assert MINE != OPERATORS


def test_a_hash_is_sha256_in_hex():
    assert hash_token("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"


@pytest.mark.parametrize(
    ("token", "caller"),
    [(MINE, Caller("vision")), (OPERATORS, Caller("operators", admin=True))],
    ids=["tenant", "admin"],
)
def test_a_token_tells_its_tenant(token, caller):
    assert who(token, KNOWN) == caller


@pytest.mark.parametrize(
    "token",
    [make_token(), MINE[:-1], hash_token(MINE), "ü\ud800", "rt_"],
    ids=["unknown", "cut short", "a hash", "no text", "prefix only"],
)
def test_any_other_is_refused(token):
    with pytest.raises(AccessDenied, match="the token is no tenant's"):
        who(token, KNOWN)


def test_so_is_none_even_where_a_tenant_has_none():
    with pytest.raises(AccessDenied, match="no token was given"):
        who("", KNOWN)


def test_every_hash_is_compared_in_full(monkeypatch):
    compared = []
    monkeypatch.setattr("hmac.compare_digest", lambda a, b: compared.append(b) or a == b)
    assert who(MINE, KNOWN).tenant == "vision"
    assert compared == [credential.token_sha256 for credential in KNOWN]


@pytest.mark.parametrize(
    ("caller", "job_tenant", "allowed"),
    [
        (Caller("vision"), "vision", True),
        (Caller("vision"), "faces", True),
        (Caller("research"), "faces", True),
        (Caller("vision"), "research", False),
        (Caller("faces"), "vision", False),
        (Caller("vision"), "operators", False),
        (Caller("vision"), "unlisted", False),
        (Caller("operators", admin=True), "faces", True),
        (Caller("operators", admin=True), "unlisted", True),
    ],
)
def test_a_tenant_changes_its_own_jobs_and_those_below_it(caller, job_tenant, allowed):
    assert may_change(caller, job_tenant, TREE) is allowed
