"""Forms of FBL: every row is a scenario that holds, and means have their intervals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks.fbl_tables.forms import FOOTINGS, FORMS, Files, changes
from benchmarks.fbl_tables.forms_table import forms_table
from simulator.errors import ScenarioError
from simulator.scenario.loading import load_scenario

FILES = Files({"camvid": Path("camvid.npz"), "msrc": Path("msrc.npz")})


@pytest.mark.parametrize("footing", FOOTINGS)
@pytest.mark.torch
def test_forms_differ_in_the_loss_alone(footing: str) -> None:
    loss = {"mode", "preset", "released_monitor", "weight_bounds", "unsure"}
    loss |= {"share_start", "share_step", "share_most", "share_since"}
    rest = []
    for form in FORMS:
        told = load_scenario(FOOTINGS[footing].scenario, changes(footing, form, 3, FILES))
        assert told.seeds == (3,)
        kept = {key: value for key, value in told.method.settings.items() if key not in loss}
        assert kept["detection"] == "stage"
        rest.append((told.model_copy(update={"method": None}), kept))
    assert all(row == rest[0] for row in rest)


def test_a_pack_that_is_missing_is_asked_for() -> None:
    with pytest.raises(ScenarioError, match=r"--pack: no file for msrc; give msrc=FILE.npz"):
        changes("msrc", "mib", 1, Files({}))


def run(*miou: float) -> dict[str, Any]:
    return {"miou": list(miou), "old": 10.0, "new": 20.0, "processor_seconds": 30.4}


def test_a_row_has_means_over_seeds_and_the_gain_seed_by_seed() -> None:
    forms = {
        "every-guess": {"1": run(50.0, 40.0), "2": run(60.0, 44.0)},
        "bounded": {"1": run(50.0, 44.0), "2": run(60.0, 50.0), "3": run(0.0, 0.0)},
        "mib": {"1": run(50.0, 60.0)},
    }
    text = forms_table({"machine": {"cpu": "a dream"}, "runs": {"digits": forms}})
    rows = {
        cells[0]: cells[1:]
        for cells in (line.strip("| ").split(" | ") for line in text.splitlines() if "|" in line)
    }
    assert rows[FORMS["every-guess"].title][:2] == ["1, 2", "55.0 ± 63.5"]
    assert rows[FORMS["bounded"].title][0] == "1, 2, 3"
    assert rows[FORMS["bounded"].title][4] == "+2.5 (-3.9, +8.9)"
    assert rows[FORMS["mib"].title][2:5] == ["60.0", "55.0", "+10.0"]
    assert "processor, s" in rows["form"]
