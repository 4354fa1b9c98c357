"""Forms of FBL: every row is a scenario that holds, and means have their intervals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks.papers.fbl_tables.forms import (
    FOOTINGS,
    FORMS,
    Case,
    Files,
    changes,
    first_changes,
)
from benchmarks.papers.fbl_tables.forms_table import best_rate, forms_table
from fleetledger.simulator.errors import ScenarioError
from fleetledger.simulator.scenario.loading import load_scenario

PACKS = {"camvid": Path("camvid.npz"), "msrc": Path("msrc.npz")}
FILES = Files(PACKS, Path("trunk.safetensors"), Path("firsts"))


@pytest.mark.parametrize("footing", FOOTINGS)
@pytest.mark.torch
def test_forms_differ_in_the_loss_alone(footing: str) -> None:
    loss = {"mode", "preset", "released_monitor", "weight_bounds", "unsure"}
    loss |= {"share_start", "share_step", "share_most", "share_since"}
    rest = []
    for form in FORMS:
        told = load_scenario(FOOTINGS[footing].scenario, changes(Case(footing, form, 3), FILES))
        assert told.seeds == (3,)
        kept = {key: value for key, value in told.method.settings.items() if key not in loss}
        assert kept["detection"] == "stage"
        rest.append((told.model_copy(update={"method": None}), kept))
    assert all(row == rest[0] for row in rest)


@pytest.mark.torch
def test_all_forms_go_on_from_one_network_that_was_taught_the_first_task() -> None:
    taught = load_scenario("camvid-fbl", first_changes("camvid", 3, FILES))
    assert (taught.stages.total, taught.devices.count, taught.seeds) == (1, 1, (3,))
    assert taught.method.trunk == str(Path("trunk.safetensors").absolute())
    for form in FORMS:
        told = load_scenario("camvid-fbl", changes(Case("camvid", form, 3), FILES))
        assert told.method.settings["base"] == "central"
        assert told.method.trunk is None
        assert told.method.first_weights == str(FILES.first_weights("camvid", 3).absolute())
        assert told.stages.lists[:1] == taught.stages.lists
        assert told.backbone == taught.backbone


def test_a_pack_that_is_missing_is_asked_for() -> None:
    with pytest.raises(ScenarioError, match=r"--pack: no file for msrc; give msrc=FILE.npz"):
        changes(Case("msrc", "mib", 1), Files({}))


@pytest.mark.parametrize(("footing", "own"), [("digits", 0.1), ("camvid", 0.02)])
def test_a_search_changes_the_rate_of_later_tasks_alone(footing: str, own: float) -> None:
    before = changes(Case(footing, "mib", 1), FILES)
    after = changes(Case(footing, "mib", 1, rate=0.3), FILES)
    assert set(after) - set(before) == {f"method.settings.rate={own * 0.3:g}"}


def run(*miou: float, rate: float = 1.0) -> dict[str, Any]:
    seed, seconds = 4, 30.4
    found = {"rate": rate, "seed": seed, "miou": list(miou), "processor_seconds": seconds}
    return found | {"old": 10.0, "new": 20.0}


def cells(text: str) -> dict[str, list[str]]:
    """The last row of each title."""
    lines = (line.strip("| ").split(" | ") for line in text.splitlines() if "|" in line)
    return {line[0]: line[1:] for line in lines}


def test_reported_runs_are_those_at_the_best_rate_of_the_search() -> None:
    tried = {"0.3": run(50.0, 20.0, rate=0.3), "1.0": run(50.0, 30.0)}
    result = {
        "machine": {},
        "runs": {
            "digits": {"mib": {"1": run(9.0, 9.0), "2": run(8.0, 8.0, rate=0.3)}},
            "digits-disjoint": {"mib": {"1": run(7.0, 7.0, rate=0.3)}},
        },
        "search": {"digits": {"mib": tried}},
    }
    assert best_rate(result, "digits", "mib") == 1
    assert cells(forms_table(result))[FORMS["mib"].title] == ["35.0", "40.0"]
    tried["0.3"] = run(50.0, 40.0, rate=0.3)
    for footing in ("digits", "digits-disjoint"):
        assert best_rate(result, footing, "mib") == 0.3, "one without a search has digits'"
    assert best_rate(result, "camvid", "mib") == best_rate(result, "digits", "bounded") == 1
    mib = [line for line in forms_table(result).splitlines() if line.startswith("| MiB | 0.3 |")]
    assert [line.split(" | ")[1:4] for line in mib] == [["0.3", "2", "8.0"], ["0.3", "1", "7.0"]]


def test_a_row_has_means_over_seeds_and_the_gain_seed_by_seed() -> None:
    forms = {
        "every-guess": {"1": run(50.0, 40.0), "2": run(60.0, 44.0)},
        "bounded": {"1": run(50.0, 44.0), "2": run(60.0, 50.0), "3": run(0.0, 0.0)},
        "mib": {"1": run(50.0, 60.0)},
    }
    text = forms_table({"machine": {"cpu": "a dream"}, "runs": {"digits": forms}})
    rows = cells(text)
    assert rows[FORMS["every-guess"].title][:3] == ["1", "1, 2", "55.0 ± 63.5"]
    assert rows[FORMS["bounded"].title][1] == "1, 2, 3"
    assert rows[FORMS["bounded"].title][5] == "+2.5 (-3.9, +8.9)"
    assert rows[FORMS["mib"].title][3:6] == ["60.0", "55.0", "+10.0"]
    assert "processor, s" in rows["form"]


def test_forms_stand_beside_both_rivals_seed_by_seed() -> None:
    seconds = {"first_seconds": 9.0}
    forms = {
        "released": {"1": run(60.0, 50.0) | seconds, "2": run(60.0, 52.0) | seconds},
        "mib": {"1": run(60.0, 45.0) | seconds, "2": run(60.0, 49.0) | seconds},
        "rcil": {"2": run(60.0, 58.0) | seconds},
    }
    text = forms_table({"machine": {}, "runs": {"camvid": forms}})
    assert "(9 s of a processor, which no row has in its own)" in text
    row = cells(text)[FORMS["released"].title]
    assert row == ["1, 2", "+4.0 (-8.7, +16.7)", "+2.0 (-4.4, +8.4)", "-6.0", "-3.0"]
    alone = forms_table({"machine": {}, "runs": {"camvid": {"mib": forms["mib"]}}})
    assert "Above rivals" not in alone
