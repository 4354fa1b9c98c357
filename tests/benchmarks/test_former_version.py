"""Ratios are taken within a round, and both versions go first equally often."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from benchmarks.former_version import compare

SIDES = {"former": Path("former"), "now": Path("now")}
BENCH = compare.Bench(Path(), Path(), 1)


def test_both_versions_take_turns_in_going_first(monkeypatch: pytest.MonkeyPatch) -> None:
    went: list[str] = []

    def went_by(_bench: compare.Bench, checkout: Path) -> Mapping[str, float]:
        went.append(checkout.name)
        return {"appends": float(len(went))}

    monkeypatch.setitem(compare.MEASURES, "appends", went_by)
    found = compare.measure(BENCH, SIDES, ["appends"], rounds=2)
    assert went == ["former", "now", "now", "former"]
    assert found == {"appends": [{"former": 1.0, "now": 2.0}, {"former": 4.0, "now": 3.0}]}


def test_a_ratio_is_of_one_round_whatever_the_machine_did_in_others() -> None:
    told = compare.summary(
        {
            "appends": [
                {"former": 100, "now": 90},
                {"former": 10, "now": 12},
                {"former": 50, "now": 50},
            ]
        }
    )
    assert told["appends"]["now_to_former"] == {"median": 1.0, "min": 0.9, "max": 1.2}
    assert "| appends | 50 | 50 | 1.0 | 0.9 to 1.2 |" in compare.table(told)


def test_a_process_that_fails_says_why(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        compare._run(tmp_path, "-c", "1 / 0")
