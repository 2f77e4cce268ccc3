from __future__ import annotations

from dataclasses import asdict

import pandas as pd
import pytest

from raytide.cli.moments import moments


def test_what_happened(log):
    assert [(m.what, m.label, m.world_size) for m in moments(log)] == [
        ("start", "start with 1", 1),
        ("grow", "grow 1 → 3", 3),
        ("migrate", "migrate", 3),
        ("lost", "rank 1 lost", 2),
        ("recovered", "recovered, 3 → 2", 2),
        ("grow", "grow 2 → 3", 3),
        ("shrink", "shrink 3 → 2", 2),
        ("end", "succeeded", 2),
    ]


def test_times_count_from_the_first_generation(log):
    assert [round(m.time_s, 1) for m in moments(log)] == [0.0, 10.0, 18.0, 20.0, 20.3, 26.0, 27.2, 30.0]


def test_preparation_begins_with_the_request_or_the_recovery(log):
    prepared = {m.label: round(m.prepare_s, 1) for m in moments(log) if m.prepare_s}
    assert prepared == {"grow 1 → 3": 6.0, "migrate": 6.0, "grow 2 → 3": 5.7}


def test_rows_of_a_result_tell_the_same(log):
    rows = pd.DataFrame([asdict(entry) for entry in log]).itertuples()
    assert moments(rows) == moments(log)


def test_costs_are_kept(log):
    grow, recovered = moments(log)[1], moments(log)[4]
    assert (grow.pause_s, grow.bytes_moved) == (0.134, 942896)
    assert recovered.recovery_s == pytest.approx(0.3)
    assert recovered.as_dict()["what"] == "recovered"


def test_nothing_happened():
    assert moments([]) == []
