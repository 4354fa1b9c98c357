"""The page of the inspection: begun by a button, kept until the sum changes."""

from __future__ import annotations

from pathlib import Path

import pytest
from starlette.testclient import TestClient

from fleetledger.coordinator.dashboard.inspection import Inspecting
from fleetledger.coordinator.ledger.entries import EntryDraft
from fleetledger.coordinator.ledger.store import Ledger
from fleetledger.coordinator.paths import ledger_path
from fleetledger.coordinator.topics.contributions.entries import ContributionsLeftOut
from fleetledger.coordinator.topics.devices.entries import DeviceAdmitted
from fleetledger.schemas.values import DeviceId
from fleetledger.transport.pages.people import Role
from tests.coordinator.dashboard.asked import told
from tests.coordinator.dashboard.served import a_fleet, browser, settled
from tests.coordinator.models.digit_home import dealt, write_home

ANSWER = "dev-7, dev-9 harm the model, of 14 devices that could be judged."


@pytest.fixture
def home(tmp_path: Path) -> Path:
    write_home(tmp_path, dealt(14, (7, 9)))
    return settled(tmp_path)


def inspect(client: TestClient) -> Inspecting:
    begun = client.post("/inspection/begin", headers={"sec-fetch-site": "same-origin"})
    assert (begun.status_code, begun.headers["location"]) == (303, "/inspection")
    inspecting: Inspecting = client.app.state.inspecting  # type: ignore[attr-defined]
    inspecting.wait()
    return inspecting


def append(home: Path, body: ContributionsLeftOut | DeviceAdmitted) -> None:
    with Ledger.open(ledger_path(home)) as ledger:
        ledger.append([EntryDraft(body.kind, "test", body.model_dump(mode="json"))])


def test_a_viewer_inspects_and_the_page_names_who_harms_and_the_way_out(home: Path) -> None:
    client = browser(home)
    assert told(client, "/inspection")["title"].startswith("Inspect what counts")
    inspect(client)
    page = told(client, "/inspection")
    assert page["title"] == ANSWER
    assert [one["name"] for one in page["devices"] if one["verdict"] == "harms"] == [
        "dev-7",
        "dev-9",
    ]
    text = browser_text(client)
    assert "Inspect again" not in text
    assert "dev-7, class by class" in text
    assert "/act/retract?device=dev-7" in text


def browser_text(client: TestClient) -> str:
    return client.get("/inspection").text


def test_an_inspection_is_kept_until_the_sum_changes(home: Path) -> None:
    client = browser(home, role=Role.OPERATOR)
    first = inspect(client).now
    append(home, DeviceAdmitted(device=DeviceId("new")))
    assert inspect(client).now is first
    page = told(client, "/inspection")
    assert page["current"]
    counted = page["inspection"]["report"]["ledger_size"] - 1
    append(home, ContributionsLeftOut(left_out=(counted,), again=(), devices={}))
    page = told(client, "/inspection")
    assert not page["current"]
    assert page["title"] == f"{ANSWER} The sum has changed since."
    assert "Inspect again" in browser_text(client)
    assert inspect(client).now is not first
    assert told(client, "/inspection")["current"]


def test_two_camps_are_named_on_the_page(tmp_path: Path) -> None:
    write_home(tmp_path, dealt(14, range(1, 7)))
    client = browser(settled(tmp_path))
    inspect(client)
    assert "two camps that harm each other" in browser_text(client)


def test_a_fleet_whose_sums_cannot_be_judged_says_why(tmp_path: Path) -> None:
    client = browser(a_fleet(tmp_path))
    inspect(client)
    page = told(client, "/inspection")
    assert page["title"] == "What counts could not be inspected."
    assert page["inspection"]["found"] in browser_text(client).replace("&#39;", "'")
