"""Whatever the controller may be told or answer comes back from its text as it was, endless floats included."""

from __future__ import annotations

from typing import get_args

import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from raytide.core import BatchLimits, JobSpec, Node, Past, Role, StepSample, Tenant, TenantTree
from raytide.core.commands import Command
from raytide.core.events import Event
from raytide.errors import ConfigError
from raytide.state import JobRow, codec

NAMES = st.text(min_size=1, max_size=5)
POSITIVE = st.floats(min_value=0, exclude_min=True)
COUNTS = st.integers(1, 1000)


@st.composite
def role_of(draw, name=NAMES):
    least, more = draw(COUNTS), draw(st.integers(0, 1000))
    return Role(draw(name), least, least + more, draw(st.integers(0, 8)))


@st.composite
def spec_of(draw):
    names = draw(st.lists(NAMES, min_size=1, max_size=3, unique=True))
    roles = tuple(draw(role_of(st.just(name))) for name in names)
    fields = {name: draw(st.none() | POSITIVE) for name in ("duration_s", "work")}
    fields |= {"deadline_s": draw(st.none() | st.floats()), "batch": draw(st.none() | st.from_type(BatchLimits))}
    requested = draw(st.integers(roles[0].least, roles[0].most))
    return JobSpec(draw(NAMES), draw(st.text()), draw(st.floats()), roles, requested, draw(st.integers()), **fields)


@st.composite
def limits_of(draw):
    batch, local = (sorted(draw(st.lists(COUNTS, min_size=2, max_size=2))) for _ in range(2))
    return BatchLimits(*batch, *local)


@st.composite
def sample_of(draw):
    nodes, step_s = draw(COUNTS), draw(POSITIVE)
    sync_s = draw(st.floats(0, step_s, exclude_max=True))
    return StepSample(nodes + draw(COUNTS), nodes, draw(COUNTS), step_s, sync_s)


@st.composite
def tenant_of(draw, name=NAMES):
    guaranteed = draw(st.integers(0, 1000))
    limit = draw(st.none() | st.integers(guaranteed))
    return Tenant(draw(name), "", guaranteed, limit, draw(POSITIVE), draw(st.floats()))


def tree_of(names):
    return st.tuples(*(tenant_of(st.just(name)) for name in names)).map(lambda tenants: TenantTree(list(tenants)))


for kind, strategy in {
    Role: role_of(),
    JobSpec: spec_of(),
    BatchLimits: limits_of(),
    StepSample: sample_of(),
    Node: st.builds(Node, NAMES, COUNTS, st.text(), st.dictionaries(st.text(), st.text(), max_size=3)),
    Tenant: tenant_of(),
    JobRow: st.builds(JobRow, failures=st.dictionaries(st.text(), st.integers(), max_size=3)),
    TenantTree: st.lists(NAMES, max_size=3, unique=True).flatmap(tree_of),
}.items():
    st.register_type_strategy(kind, strategy)


def drawn(data, kind):
    try:
        return data.draw(st.from_type(kind))
    except ConfigError:
        reject()


def assert_same(found, value):
    """By their representation: it tells 1 from 1.0, and one NaN is like another."""
    assert repr(found) == repr(value)


@pytest.mark.parametrize("kind", get_args(Event), ids=lambda kind: kind.__name__)
@settings(deadline=None)  # the first example of a type takes as long as pydantic needs to understand it
@given(data=st.data())
def test_events(kind, data):
    event = drawn(data, kind)
    assert_same(codec.loads_event(codec.dumps_event(event)), event)


@pytest.mark.parametrize("kind", get_args(Command), ids=lambda kind: kind.__name__)
@settings(deadline=None)
@given(data=st.data())
def test_commands(kind, data):
    command = drawn(data, kind)
    assert_same(codec.loads_command(codec.dumps_command(command)), command)


@pytest.mark.parametrize("kind", [JobSpec, Past, Node, Tenant, JobRow], ids=lambda kind: kind.__name__)
@settings(deadline=None)
@given(data=st.data())
def test_values(kind, data):
    value = drawn(data, kind)
    text = codec.dumps(value)
    assert_same(codec.loads(kind, text), value)
    assert text.isascii()
    assert len(text.splitlines()) == 1
