from __future__ import annotations

import pytest

from raytide.durations import parse_duration
from raytide.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90.0), ("90s", 90.0), ("0.5m", 30.0), ("1h30m", 5400.0), ("2d", 172_800.0), ("1d2h3m4.5s", 93_784.5)],
)
def test_lengths_of_time(text, seconds):
    assert parse_duration("wait", text) == seconds


@pytest.mark.parametrize("text", ["", "0", "0h0m", "soon", "-1s", "1m1h", "1m1m", "1 h", "1e3", "٣s", "1h30", "inf"])
def test_what_is_none_is_refused(text):
    with pytest.raises(ConfigError, match=r"wait: .* is no length of time"):
        parse_duration("wait", text)
