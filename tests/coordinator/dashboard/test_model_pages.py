"""The pages of models: which leads, how well it does against the one before, what made it."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleetledger.schemas.models import ModelStatus
from tests.coordinator.core.harness import Bench, exported
from tests.coordinator.dashboard.asked import home_of, page_of, told
from tests.coordinator.dashboard.served import browser
from tests.coordinator.dashboard.test_links import every_kind
from tests.coordinator.reports.test_old_and_new_classes import evaluate, two_stages
from tests.coordinator.reports.test_views import RULES


def measured_again(orange: int) -> Bench:
    """Two versions of two stages; the second is right for `orange` of a thousand cats."""
    bench = two_stages()
    evaluate(bench, "dev-1", 1, cat=(950, 1000), dog=(900, 1000))
    evaluate(bench, "dev-1", 2, cat=(orange, 1000), dog=(905, 1000), eel=(70, 100))
    return bench


def test_without_a_model_the_page_says_so(tmp_path: Path) -> None:
    bench = Bench(RULES)
    bench.begin("dev-1", "dev-2")
    assert page_of(tmp_path, bench, "/models")["title"] == "There is no model yet."


def test_the_title_says_where_the_model_of_all_devices_runs_and_how_well(tmp_path: Path) -> None:
    page = page_of(tmp_path, two_stages(), "/models")
    assert page["title"].startswith("Model 2 runs on ")
    assert "is right for" in page["title"]
    assert [line["version"] for line in page["models"]] == [2, 1]


def test_a_class_that_got_worse_is_named_in_the_title(tmp_path: Path) -> None:
    page = page_of(tmp_path, measured_again(800), "/models/2")
    assert page["title"] == "Model 2 knows 3 classes, and is worse than model 1 for cat."
    verdicts = {line["name"]: line["verdict"] for line in page["comparison"]["classes"]}
    assert verdicts == {"cat": "worse", "dog": "no evidence", "eel": "new"}
    assert page["comparison"]["classes"][0]["name"] == "cat"


def test_a_small_change_is_no_evidence(tmp_path: Path) -> None:
    page = page_of(tmp_path, measured_again(945), "/models/2")
    assert "no evidence that it is worse than model 1" in page["title"]


def test_a_refused_model_names_the_device_and_why(tmp_path: Path) -> None:
    bench = two_stages()
    refused = ModelStatus(
        version=2, manifest=exported(2).manifest.digest, state="failed", reason="too far"
    )
    bench.message("dev-2", refused)
    page = page_of(tmp_path, bench, "/models/2")
    (refusal,) = page["runs"]["refusals"]
    assert (refusal["device"], refusal["state"], refusal["reason"]) == (
        "dev-2",
        "failed",
        "too far",
    )


def test_what_it_was_made_from_leads_to_entries(tmp_path: Path) -> None:
    client = browser(home_of(tmp_path, two_stages()))
    page = told(client, "/models/1")
    entry = told(client, f"/ledger?entry={page['facts']['solved_index']}")["entry"]
    assert entry["entry"]["kind"] == "model.solved"
    assert page["facts"]["contributions"] == 2
    assert page["made"]["contributors"] == 2


@pytest.mark.parametrize("version", ["99", "x", "-1", "1" * 40])
def test_a_model_that_is_not_there_is_told_so(tmp_path: Path, version: str) -> None:
    client = browser(home_of(tmp_path, two_stages()))
    assert client.get(f"/models/{version}").status_code == 404


def test_models_of_every_kind_can_be_looked_at(tmp_path: Path) -> None:
    client = browser(every_kind(tmp_path))
    for line in told(client, "/models")["models"]:
        page = told(client, f"/models/{line['version']}")
        assert page["title"].startswith(f"Model {line['version']} knows")
        assert any(item["version"] == line["version"] for item in page["lineage"]["versions"])
