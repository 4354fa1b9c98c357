"""The example of docs/results.md, as it stands there."""

import re
from pathlib import Path

import matplotlib.figure

from fleetledger.simulator.metrics.headline import METRICS
from tests.outside import nothing_stays
from tests.simulator.unrendered import unrendered
from tests.test_architecture import ROOT

__all__ = ["unrendered"]

PAGE = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")


def test_the_example_runs_and_measures_its_own_number(tmp_path: Path, monkeypatch, capsys):
    (example,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FLEETLEDGER_CACHE", str(tmp_path / "cache"))
    names: dict[str, object] = {"__name__": "example"}
    with nothing_stays(METRICS):
        exec(compile(example, "docs/results.md", "exec"), names)
    run, told = names["run"], capsys.readouterr().out
    assert [line.split()[:2] for line in told.splitlines()[:9]] == [
        [str(seed), str(stage)] for seed in (1, 2, 3) for stage in (1, 2, 3)
    ]
    assert "| run | average incremental accuracy |" in told
    assert r"\begin{tabular}" in told
    assert 0 < run.summary("zeros").mean < 1
    assert (tmp_path / "accuracy.pdf").read_bytes().startswith(b"%PDF")
    assert isinstance(run.figure("accuracy"), matplotlib.figure.Figure)
    assert "zeros" in (tmp_path / "runs" / "stsa" / "report.html").read_text()
    assert names["paired"].count == 3
