from __future__ import annotations

from collections import defaultdict
from itertools import islice, pairwise
from statistics import fmean

import pytest

from raytide.core.events import NodeDraining, NodeJoined, NodeLost
from raytide.errors import ConfigError
from raytide.policies.registry import policy_names
from raytide.sim import SimOptions, simulate
from raytide.sim.faults import FaultRates, RandomFaults, parse_faults
from raytide.sim.settings import parse_count
from raytide.sim.traces import SyntheticTrace, TraceJob, generate
from support.scheduling import nodes, quick_policy

HOUR_S = 3600.0


def drawn(rates: FaultRates, *, seed: int = 0, count: int = 4, until_s: float = 1e7) -> list:
    return list(RandomFaults(nodes(*[8] * count), rates, seed, 100.0, until_s))


def times(faults, kind: type) -> dict[str, list[float]]:
    found = defaultdict(list)
    for at_s, event in faults:
        if isinstance(event, kind):
            found[event.node.node if kind is NodeJoined else event.node].append(at_s)
    return found


def test_rates_as_they_are_written():
    assert parse_faults("mtbf=6h, repair=30m") == FaultRates(mtbf_s=6 * HOUR_S, repair_s=1800.0)
    spot = FaultRates(spot_s=86_400.0, notice_s=90.0, away_s=1.5 * HOUR_S)
    assert parse_faults("spot=1d,notice=90,away=1.5h") == spot


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("mtfb=6h", "faults: 'mtfb' is no setting. Did you mean mtbf?"),
        ("mtbf", "faults: mtbf is given no value"),
        ("mtbf=1h,mtbf=2h", "faults: mtbf is given twice"),
        ("mtbf=soon", "faults: mtbf: 'soon' is no length of time"),
        ("mtbf=0h", "faults: mtbf: '0h' is no length of time"),
        ("repair=1h", "faults: no node ever goes"),
    ],
)
def test_what_means_nothing_is_refused(text, said):
    with pytest.raises(ConfigError) as error:
        parse_faults(text)
    assert str(error.value).startswith(said)


def test_a_rate_and_a_count_are_above_0():
    with pytest.raises(ConfigError, match=r"FaultRates\.mtbf_s"):
        FaultRates(mtbf_s=0.0)
    with pytest.raises(ConfigError, match="no count"):
        parse_count("jobs", "0")


def test_failures_have_the_rates_and_the_order_of_time():
    faults = drawn(FaultRates(mtbf_s=6 * HOUR_S, repair_s=HOUR_S), count=8)
    assert all(first[0] <= second[0] for first, second in pairwise(faults))
    lost, joined = times(faults, NodeLost), times(faults, NodeJoined)
    assert lost.keys() == joined.keys() == {f"n{i}" for i in range(8)}
    up_s = [at - back for name in lost for back, at in zip([100.0, *joined[name]], lost[name], strict=False)]
    down_s = [back - at for name in lost for at, back in zip(lost[name], joined[name], strict=True)]
    assert fmean(up_s) == pytest.approx(6 * HOUR_S, rel=0.1)
    assert fmean(down_s) == pytest.approx(HOUR_S, rel=0.1)
    assert not times(faults, NodeDraining)


def test_a_reclaim_is_announced():
    faults = drawn(FaultRates(spot_s=6 * HOUR_S, notice_s=120.0))
    told, lost = times(faults, NodeDraining), times(faults, NodeLost)
    assert told
    assert lost == {name: [at + 120.0 for at in instants] for name, instants in told.items()}


def test_both_at_once():
    faults = drawn(FaultRates(mtbf_s=6 * HOUR_S, spot_s=6 * HOUR_S))
    announced = sum(map(len, times(faults, NodeDraining).values())) / sum(map(len, times(faults, NodeLost).values()))
    assert announced == pytest.approx(0.5, abs=0.05)


def test_seeds_and_the_size_of_the_cluster():
    rates = FaultRates(mtbf_s=6 * HOUR_S)
    four, again, other = drawn(rates), drawn(rates), drawn(rates, seed=1)
    assert four == again != other
    assert times(drawn(rates, count=5), NodeLost)["n2"] == times(four, NodeLost)["n2"]


def test_everything_comes_back():
    faults = drawn(FaultRates(mtbf_s=HOUR_S), until_s=5 * HOUR_S)
    assert max(at_s for at_s, event in faults if isinstance(event, NodeLost)) <= 5 * HOUR_S
    assert sum(isinstance(event, NodeLost) for _, event in faults) == sum(
        isinstance(event, NodeJoined) for _, event in faults
    )
    endless = RandomFaults(nodes(8), FaultRates(mtbf_s=HOUR_S), 0, 0.0, float("inf"))
    assert len(list(islice(endless, 1000))) == 1000


@pytest.mark.parametrize("policy", policy_names())
def test_every_policy_lives_with_them(policy):
    rates = FaultRates(mtbf_s=2 * HOUR_S, spot_s=2 * HOUR_S)
    trace = [*generate(SyntheticTrace(jobs=60, span_s=2 * HOUR_S)), TraceJob("all", "x", 60.0, 32, 600.0)]
    faults = RandomFaults(nodes(8, 8, 8, 8), rates, 0, 0.0, float("inf"))
    result = simulate(trace, "4x8", quick_policy(policy), options=SimOptions(faults=faults, most_gpus=32))
    assert {str(job.state) for job in result.jobs} == {"succeeded"}
    assert min(result.timeline.total_gpus) < 32
