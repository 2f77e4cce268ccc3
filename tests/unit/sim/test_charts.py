from __future__ import annotations

import matplotlib.image as mpimg
import numpy as np
import pytest

from raytide.sim import simulate
from raytide.sim.charts import MOST_TENANTS, draw_cluster, draw_jct, draw_tenants, write_charts
from raytide.sim.report import Run
from raytide.sim.traces import TraceJob

TRACE = [TraceJob(str(i), f"t{i % 12}", 100.0 * i, 1 + i % 8, 60.0 * (1 + i % 50)) for i in range(120)]


@pytest.fixture(scope="module")
def runs() -> dict[str, Run]:
    return {name: Run.of(simulate(TRACE, "2x8", name)) for name in ("fifo", "srtf")}


def labels(figure) -> list[str]:
    return [text.get_text() for text in figure.legends[0].get_texts()]


def test_jct(runs):
    figure = draw_jct(runs)
    assert [label.split()[0] for label in labels(figure)] == ["fifo", "srtf"]
    assert {"5 min", "1 h"} <= {tick.get_text() for tick in figure.axes[0].get_xticklabels()}
    shares = figure.axes[0].lines[0].get_ydata()
    assert shares[-1] == 1.0


def test_cluster(runs):
    figure = draw_cluster(runs)
    assert labels(figure) == ["fifo", "srtf"]
    above, below = figure.axes
    assert below.get_xlabel().startswith("hours")
    held = above.patches[0].get_data().values
    edges = above.patches[0].get_data().edges * 3600
    gpu_s = (held * np.diff(edges)).sum() * 16
    assert gpu_s == pytest.approx(runs["fifo"].jobs["gpu_s"].sum()), "bins keep the area"


def test_tenants(runs):
    figure = draw_tenants(runs)
    assert len(labels(figure)) == MOST_TENANTS + 1
    assert labels(figure)[-1] == "4 others"
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["fifo", "srtf"]


def test_files_are_pictures_of_a_readable_size(runs, tmp_path):
    paths = write_charts(runs, tmp_path)
    assert [path.name for path in paths] == ["jct.png", "cluster.png", "tenants.png"]
    assert {mpimg.imread(path).shape[1] for path in paths} == {1200}


def test_one_short_job_and_jobs_that_never_ran_can_be_drawn(tmp_path):
    trace = [TraceJob("a", "x", 5.0, 1, 1.0)]
    write_charts({"fifo": Run.of(simulate(trace, "1x8"))}, tmp_path)
    trace = [TraceJob("a", "x", 5.0, 9, 1.0)]
    write_charts({"fifo": Run.of(simulate(trace, "1x8"))}, tmp_path)
