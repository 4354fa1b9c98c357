"""Ten agents on Mosquitto, and a person who leads a rollout in Chromium, by its buttons alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fleetledger.coordinator.ledger.entries import Entry
from fleetledger.coordinator.ledger.reader import ledger_of
from fleetledger.simulator.engines.mqtt.processes import Children
from fleetledger.transport.brokers import MosquittoBroker
from tests.coordinator.dashboard.chromium.browsing import Browsing, chromium
from tests.coordinator.dashboard.chromium.fleet import DashboardProgram
from tests.end_to_end.rollout_fleet import DEVICES, RolloutFleet

pytestmark = [
    pytest.mark.broker,
    pytest.mark.chromium,
    pytest.mark.slow,
    pytest.mark.timeout(1200),
]
WHY = "to see what it does"


@pytest.fixture
def browser() -> Iterator[Any]:
    with chromium() as found:
        yield found


@pytest.fixture
def fleet(tmp_path: Path, mosquitto: MosquittoBroker) -> Iterator[RolloutFleet]:
    """Ten agents that run model 1."""
    with Children(tmp_path) as children:
        made = RolloutFleet(tmp_path, mosquitto, children)
        made.run_model_1()
        yield made


def test_its_groups_are_approved_stopped_and_taken_back_by_buttons(
    browser: Any, fleet: RolloutFleet
) -> None:
    fleet.import_model(2, scale=1.01)
    fleet.plan(2, "--groups", "4,100%", "--approve", "operator")
    dashboard = DashboardProgram(fleet.home)
    try:
        browsing = Browsing(browser.new_context())
        page = browsing.come_in(dashboard.links["operator"])
        lead(page, dashboard.url, fleet)
        assert browsing.problems == []
    finally:
        dashboard.stop()
    done = [(entry.kind, entry.body.get("reason")) for entry in of_persons(fleet)]
    assert done == [
        ("rollout.approved", None),
        ("rollout.started", None),
        ("rollout.paused", WHY),
        ("rollout.resumed", WHY),
        ("rollout.rolled_back", WHY),
    ]


def lead(page: Any, url: str, fleet: RolloutFleet) -> None:
    """Press what a person would, and look each time at what devices run and the page says."""
    press(page, url, "Approve group 1")
    assert set(fleet.running()) == {1}
    press(page, url, "Start")
    # This page is not loaded again: it is told what devices have reported.
    page.goto(f"{url}/rollouts/1")
    page.evaluate("window.since = 'the page was opened'")
    page.wait_for_selector("#doing >> text=Approve group 2")
    assert page.evaluate("window.since") == "the page was opened"
    assert fleet.running().count(2) == 4
    press(page, url, "Pause")
    assert "is paused" in page.inner_text("h1")
    press(page, url, "Resume")
    says(page, url, "Approve group 2")
    press(page, url, "Go back to model 1")
    assert "back" in page.inner_text("h1")
    fleet.until(lambda: fleet.running() == [1] * len(DEVICES))


def press(page: Any, url: str, word: str) -> None:
    """Press a button of the rollout's page, say why where that is asked, and come back to it."""
    page.goto(f"{url}/rollouts/1")
    button = page.locator(f"#doing a.button:has-text('{word}')")
    assert button.count() == 1, page.inner_text("main")[:2000]
    button.click()
    if page.locator("[name=reason]").count():
        page.fill("[name=reason]", WHY)
    page.click("main form button:enabled")
    page.wait_for_load_state()
    assert page.locator("[role=alert]").count() == 0, page.inner_text("main")
    page.goto(f"{url}/rollouts/1")


def says(page: Any, url: str, text: str) -> None:
    page.goto(f"{url}/rollouts/1")
    page.wait_for_selector(f"#doing >> text={text}")


def of_persons(fleet: RolloutFleet) -> list[Entry]:
    """Return what persons, who are told by name, did to rollouts."""
    with ledger_of(fleet.home) as ledger:
        entries = list(ledger.entries())
    return [
        one
        for one in entries
        if one.kind.startswith("rollout.") and one.actor.startswith("operator:")
    ]
