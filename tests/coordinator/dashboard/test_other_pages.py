"""Stages, contributions, classes, trust, traffic, problems: what each says, and its figures."""

from __future__ import annotations

from pathlib import Path

from fleetledger.coordinator.topics.contributions.commands import RetractContributions
from fleetledger.coordinator.topics.devices.commands import AdmitDevice
from fleetledger.coordinator.topics.stages.commands import CloseStage, OpenStage
from fleetledger.schemas.contributions import Nothing
from fleetledger.schemas.values import DeviceId
from tests.coordinator.core.harness import Bench, contribution, names
from tests.coordinator.dashboard.asked import home_of, page_of, told
from tests.coordinator.dashboard.served import a_fleet, browser
from tests.coordinator.dashboard.test_links import every_kind
from tests.coordinator.reports.test_old_and_new_classes import two_stages
from tests.coordinator.reports.test_views import RULES


def open_stage() -> Bench:
    """A stage that one of two devices has answered."""
    bench = Bench(RULES)
    bench.begin("dev-1", "dev-2")
    bench.give("dev-1", contribution("a", samples={"cat": 3, "dog": 2}))
    return bench


def retracted() -> Bench:
    """The same, and the operator took it out again."""
    bench = open_stage()
    bench.command(RetractContributions(device=DeviceId("dev-1"), reason="a wrong folder"))
    return bench


def test_an_open_stage_says_who_is_missing(tmp_path: Path) -> None:
    page = page_of(tmp_path, open_stage(), "/stages/1")
    assert page["title"] == "Stage 1 is open: 1 of 2 devices answered."
    assert page["missing"] == ["dev-2"]
    assert [line["device"] for line in page["given"]] == ["dev-1"]


def test_a_closed_stage_says_why_and_who_answered(tmp_path: Path) -> None:
    client = browser(home_of(tmp_path, two_stages()))
    page = told(client, "/stages/1")
    assert page["title"] == (
        "Stage 1 is closed: it asked for 2 classes, and 2 of 2 devices answered."
    )
    assert page["stage"]["closed_because"]
    assert [line["stage"] for line in told(client, "/stages")["stages"]] == [2, 1]
    assert client.get("/stages/9").status_code == 404


def test_who_answered_a_stage_is_a_bar_with_the_same_in_words(tmp_path: Path) -> None:
    bench = open_stage()
    bench.message("dev-2", Nothing(stage=1))
    bench.command(CloseStage())
    bench.command(AdmitDevice(device=DeviceId("dev-3")))
    bench.born("dev-3")
    bench.give("dev-3", contribution("late", samples={"cat": 1}))
    client = browser(home_of(tmp_path, bench))
    stage = told(client, "/stages/1")["stage"]
    assert [stage[word] for word in ("answered", "expected", "gave", "without")] == [2, 2, 2, 1]
    text = client.get("/stages/1").text
    assert "2 gave" in text
    assert "1 said to have nothing" in text
    assert "0 of 3 devices missing" in text
    assert "Among them 1 device that answered after the stage had closed." in text
    assert 'd="M0 1h66.67v8H0z"' in text
    assert 'd="M66.67 1h33.33v8h-33.33z"' in client.get("/stages").text


def test_a_round_names_each_device_with_its_outcome(tmp_path: Path) -> None:
    client = browser(every_kind(tmp_path))
    stages = [line["stage"] for line in told(client, "/stages")["stages"] if line["rounds"]]
    rounds = [line["number"] for s in stages for line in told(client, f"/stages/{s}")["rounds"]]
    assert rounds
    for number in rounds:
        page = told(client, f"/rounds/{number}")
        counted = [one for one in page["devices"] if one["state"] == "counted"]
        assert len(counted) == (page["line"]["counted"] or 0)
    assert client.get("/rounds/99").status_code == 404


def test_what_was_retracted_names_the_entry_by_which_it_left(tmp_path: Path) -> None:
    client = browser(home_of(tmp_path, retracted()))
    page = told(client, "/contributions?device=dev-1")
    (line,) = page["lines"]
    assert line["state"] == "retracted"
    assert page["title"] == "dev-1 gave nothing that counts; 1 retracted."
    entry = told(client, f"/ledger?entry={line['left_index']}")["entry"]
    assert entry["entry"]["kind"] == "contribution.retracted"


def test_contributions_are_found_by_stage_state_and_model(tmp_path: Path) -> None:
    client = browser(home_of(tmp_path, two_stages()))
    assert len(told(client, "/contributions?stage=2")["lines"]) == 2
    assert told(client, "/contributions?state=late")["lines"] == []
    page = told(client, "/contributions?model=1")
    assert page["title"] == "Model 1 was made from 2 contributions."
    assert page["lines"][0]["classes"] == {"cat": 3, "dog": 3}


def test_one_part_alone_is_retracted_from_its_row(tmp_path: Path) -> None:
    text = browser(home_of(tmp_path, open_stage())).get("/act/retract?device=dev-1&part=1/0").text
    assert "ledger retract dev-1" in text
    assert "--part 1/0" in text


def test_classes_say_where_the_fleet_is_weakest(tmp_path: Path) -> None:
    page = page_of(tmp_path, two_stages(), "/classes")
    assert page["title"].startswith("The fleet knows 3 classes, and is weakest at ")
    assert {line["name"]: line["first_stage"] for line in page["classes"]} == {
        "cat": 1,
        "dog": 1,
        "eel": 2,
    }
    assert {line["name"]: line["name"] in page["newest"] for line in page["classes"]} == {
        "cat": False,
        "dog": False,
        "eel": True,
    }
    assert page["scale_from"] <= min(one["correct"] / one["total"] for one in page["classes"])


def test_a_stage_with_a_hostile_name_is_only_text(tmp_path: Path) -> None:
    bench = two_stages()
    bench.command(OpenStage(class_names=names("<b>x")))
    client = browser(home_of(tmp_path, bench))
    for path in ("/stages", "/classes", "/ledger"):
        text = client.get(path).text
        assert "<b>x" not in text
        assert "&lt;b&gt;x" in text


def test_trust_says_who_has_a_key(tmp_path: Path) -> None:
    page = page_of(tmp_path, two_stages(), "/trust")
    assert page["title"] == "0 of 2 devices have a key; models go out without a release key."


def test_traffic_is_what_the_coordinator_counted(tmp_path: Path) -> None:
    page = told(browser(a_fleet(tmp_path)), "/traffic")
    (kind,) = page["kinds"]
    assert (kind["kind"], kind["bytes_in"], kind["messages_in"]) == ("heartbeat", 900, 9)
    assert "most of it is heartbeat" in page["title"]


def test_without_a_coordinator_nothing_is_known_of_traffic(tmp_path: Path) -> None:
    page = page_of(tmp_path, two_stages(), "/traffic")
    assert page["title"].startswith("Nothing is known of the traffic")


def test_problems_are_what_needs_a_person_and_what_did(tmp_path: Path) -> None:
    page = told(browser(every_kind(tmp_path)), "/problems")
    assert "you now" in page["title"]
    indices = [line["index"] for line in page["entries"]]
    assert indices == sorted(indices, reverse=True)
    assert page["count"] >= len(indices) > 0
