"""The same with a broker, a coordinator and two agents as programs of their own."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from coordinator import views
from simulator.demo.run import run_demo
from simulator.demo.settings import DemoSettings

pytestmark = pytest.mark.broker


def test_two_agents_open_the_second_stage_over_mqtt(tmp_path: Path) -> None:
    out = tmp_path / "run"
    settings = DemoSettings(
        out, "exact", "auto", seed=3, agents=2, stages=2, map_width=96, opening="reports"
    )
    content = run_demo(settings, Console(file=StringIO(), width=160))
    first, second = views.stages(out / "coordinator")
    assert first.opened == "by operator"
    assert second.opened.startswith("by reports of 2 devices, 2 needed: ")
    assert set(second.class_names) == {"2", "3"}
    assert [stage["accuracy"] > 0.9 for stage in content["stages"]] == [True, True]
    assert content["problems"] == []
