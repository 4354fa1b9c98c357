"""A case is run once, and by its own settings; what it cost is added up over its starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.run_folders import processor_seconds, run_case
from fleetledger.simulator.errors import RunError
from fleetledger.simulator.scenario.loading import load_scenario, scenario_to_toml


def test_a_finished_case_is_only_read_again_and_refused_to_a_case_of_other_settings(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "run"
    first = run_case("digits-tiny", [], folder)
    seconds = processor_seconds(folder)
    again = run_case("digits-tiny", ["title=said otherwise"], folder)
    assert again.first.headline == first.first.headline
    assert seconds is not None
    assert processor_seconds(folder) == seconds
    with pytest.raises(RunError, match=r"method\.settings\.ridge .*, now 7\.5; delete that folder"):
        run_case("digits-tiny", ["method.settings.ridge=7.5"], folder)


def test_a_stopped_case_does_not_go_on_for_a_case_of_other_settings(tmp_path: Path) -> None:
    told = scenario_to_toml(load_scenario("digits-tiny", ["seeds=[1]"]))
    (tmp_path / "scenario.toml").write_text(told, encoding="utf-8")
    (tmp_path / "run.json").write_text("{}", encoding="utf-8")
    with pytest.raises(RunError, match=r"seeds \[1\], now \[2\]; delete that folder"):
        run_case("digits-tiny", ["seeds=[2]"], tmp_path)


def test_seconds_add_up_over_starts(tmp_path: Path) -> None:
    assert processor_seconds(tmp_path) is None
    (tmp_path / "processor.jsonl").write_text("1.5\n2.3\n", encoding="utf-8")
    assert processor_seconds(tmp_path) == 3.8
