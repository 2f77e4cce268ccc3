from __future__ import annotations

from dataclasses import asdict

import numpy as np
import pandas as pd

from raytide.cli.timeline import draw_timeline, throughput
from raytide.cli.traces import Step
from raytide.train import Result


def steady(count: int, every_s: float = 0.1, samples: int = 64) -> list[Step]:
    return [Step(i, 0, i * samples, (i + 1) * samples, 100.0 + (i + 1) * every_s, 1, (), True) for i in range(count)]


def result(log) -> Result:
    events = pd.DataFrame([asdict(entry) for entry in log], columns=["number", "time_s", "kind", "text", "data"])
    return Result("digits", "succeeded", {}, pd.DataFrame(), None, pd.DataFrame(), events)


def test_throughput_of_a_steady_job_is_steady():
    times, rates = throughput(steady(100), 100.0, window_s=1.0)
    np.testing.assert_allclose(rates[10:], 640.0, rtol=1e-6)
    assert times[-1] == 10.0


def test_the_picture_names_everything_that_happened(log, tmp_path):
    figure = draw_timeline(result(log), steady(300))
    said = " ".join(text.get_text() for axes in figure.axes for text in axes.texts)
    for label in ("grow 1 → 3", "migrate", "rank 1 lost", "recovered, 3 → 2", "shrink 3 → 2", "succeeded"):
        assert label in said
    assert "640/s" in said, "the mean of an undisturbed stretch"
    figure.savefig(tmp_path / "timeline.png")
    assert (tmp_path / "timeline.png").read_bytes().startswith(b"\x89PNG")


def test_a_job_without_history_is_drawn_empty():
    assert len(draw_timeline(result([]), []).axes) == 2
