"""The snippets of docs/simulating.md run as they stand, one after another."""

from __future__ import annotations

import re
from pathlib import Path

from raytide.policies.registry import policy_names
from raytide.sim.report import Run, summary
from raytide.sim.traces import SyntheticTrace, generate, write_trace

DOCS = Path(__file__).parents[3] / "docs"
GUIDE = (DOCS / "simulating.md").read_text(encoding="utf-8")
SNIPPETS = re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL)


def test_the_guide_can_be_followed(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_trace(generate(SyntheticTrace(jobs=40, span_s=3600.0)), "trace.csv")
    scope: dict = {}
    results = []
    for snippet in SNIPPETS:
        exec(snippet, scope)
        results.append(scope["result"])
    assert len(SNIPPETS) == 3
    assert len(capsys.readouterr().out.splitlines()) >= 6
    assert {str(job.state) for job in results[-1].jobs} == {"succeeded"}
    assert results[-1] is not results[0]


def test_the_guide_explains_every_figure(tmp_path):
    trace = generate(SyntheticTrace(jobs=10))
    from raytide.sim import simulate

    run = Run.of(simulate(trace))
    told = summary(run.result, run.jobs).keys() - {"jobs", "succeeded"}
    assert [name for name in told if f"`{name}`" not in GUIDE] == []


def test_every_policy_is_described():
    described = (DOCS / "scheduling.md").read_text(encoding="utf-8")
    assert [name for name in policy_names() if f"`{name}`" not in described] == []
