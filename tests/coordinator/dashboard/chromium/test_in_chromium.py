"""Somebody looks on while three real devices learn, and the dashboard is restarted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from fleetledger.coordinator.dashboard.pages import PAGES
from fleetledger.coordinator.topics.devices.commands import AdmitDevice
from fleetledger.schemas.values import DeviceId
from tests.coordinator.dashboard.chromium.browsing import (
    Browsing,
    chromium,
    example_pages,
    wrong_in_sizes,
)
from tests.coordinator.dashboard.chromium.fleet import DashboardProgram, RealFleet, until

pytestmark = [pytest.mark.chromium, pytest.mark.broker, pytest.mark.slow]
SHORT = ("stages.classes=4", "stages.count=2", "method.settings.map_width=96", "devices.count=3")
SHORT += ("evaluation.pooled_reference=false", "devices.partition.seeds=[]")
LISTEN = """since => {
    window.told = [];
    const source = new EventSource(`/events?since=${since}`);
    source.addEventListener("entries", (event) => {
        const change = JSON.parse(event.data);
        window.told.push([change.first, change.last]);
    });
}"""

SAME_AS_ANEW = """async () => {
    const answer = await fetch(location.href, {headers: {accept: "text/html"}});
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
    const words = root => [...root.querySelectorAll("#main *")]
        .filter(one => !one.children.length && !one.closest("tbody[id]"))
        .map(one => one.textContent)
        .concat([...root.querySelectorAll("tbody[id] tr")].map(row => row.textContent).sort())
        .map(text => text.replace(/\\d+ (s|min|h|days?) ago/g, "").replace(/\\s+/g, " ").trim());
    return JSON.stringify(words(document)) === JSON.stringify(words(fresh));
}"""
"""Whether a page that was opened a while ago is what one gets who opens it now, but for ages."""


@dataclass
class Scene:
    """The fleet, its dashboard, and an operator's and a viewer's browser."""

    fleet: RealFleet
    dashboard: DashboardProgram
    operator: Browsing
    viewer: Browsing
    page: Any
    """The operator's, which stays open throughout."""


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    folder = tmp_path_factory.mktemp("fleet")
    with pytest.MonkeyPatch.context() as patch, chromium() as browser:
        patch.setenv("FLEETLEDGER_CACHE", str(folder / "cache"))
        fleet = RealFleet(folder / "seed", SHORT)
        try:
            fleet.learn()
            dashboard = DashboardProgram(fleet.home)
            try:
                operator, viewer = (Browsing(browser.new_context()) for _ in range(2))
                page = operator.come_in(dashboard.links["operator"])
                viewer.come_in(dashboard.links["viewer"])
                yield Scene(fleet, dashboard, operator, viewer, page)
            finally:
                dashboard.stop()
        finally:
            fleet.close()


def newest(page: Any) -> int:
    return int(page.inner_text("#newest").lstrip("#").replace(",", ""))


def test_contributions_appear_on_an_open_page_while_the_fleet_learns(scene: Scene):
    page, before = scene.page, newest(scene.page)
    page.evaluate("window.since = 'the page was opened'")
    scene.fleet.learn()
    given = scene.fleet.entries("contribution.accepted")[-1].index
    page.wait_for_function(
        """index => {
        const text = document.getElementById("newest").textContent;
        return Number(text.replace(/[#,]/g, "")) >= index;
    }""",
        arg=given,
    )
    assert before < given <= newest(page)
    page.wait_for_function(SAME_AS_ANEW)
    assert page.evaluate("window.since") == "the page was opened"


def test_every_page_is_whole_readable_and_open_to_everybody(scene: Scene):
    page = scene.operator.page()
    found = example_pages(page, scene.dashboard.url, PAGES)
    assert set(found) == {one.name for one in PAGES} - {"round", "rollout"}  # of another test
    found["form"] = f"{scene.dashboard.url}/act/admit"
    wrong = []
    for name, address in found.items():
        page.goto(address)
        assert page.title(), name
        assert page.locator("h1").count() == 1, name
        wrong += [f"{name}, {one}" for one in wrong_in_sizes(page)]
    page.close()
    assert not wrong, "\n".join(wrong)
    assert scene.operator.problems == []


def test_a_stream_goes_on_after_a_restart_without_a_gap_and_without_a_repeat(scene: Scene):
    page, fleet = scene.operator.page(), scene.fleet
    page.goto(scene.dashboard.url)
    since = fleet.size() - 1
    page.evaluate(LISTEN, since)
    admit_another(fleet)
    page.wait_for_function("() => window.told.length > 0")
    scene.dashboard.stop()
    admit_another(fleet)
    scene.dashboard.start()
    admit_another(fleet)
    page.wait_for_function("last => window.told.at(-1)[1] >= last", arg=fleet.size() - 1)
    told = [
        index for first, last in page.evaluate("window.told") for index in range(first, last + 1)
    ]
    assert told[: fleet.size() - since - 1] == list(range(since + 1, fleet.size()))
    assert len(told) == len(set(told))
    page.close()
    # While there was no dashboard, browsers said so; that is all.
    for browsing in (scene.operator, scene.viewer):
        assert all("ERR_" in problem for problem in browsing.problems)
        browsing.problems.clear()


def test_an_action_of_a_viewer_is_refused_and_one_of_an_operator_is_an_entry(scene: Scene):
    before = len(scene.fleet.entries("device.admitted"))
    page = scene.viewer.page()
    page.goto(f"{scene.dashboard.url}/act/admit?device=late-1")
    assert page.locator("main form button:enabled").count() == 0
    status = page.evaluate("""() => fetch("/act/admit", {
        method: "POST", body: new URLSearchParams({device: "late-1"}),
    }).then((answer) => answer.status)""")
    assert status == 403
    assert len(scene.fleet.entries("device.admitted")) == before
    page.close()
    scene.viewer.problems.clear()  # of the answer that was wanted
    page = scene.operator.page()
    page.goto(f"{scene.dashboard.url}/act/admit?device=late-1")
    page.click("main form button:enabled")
    until(lambda: len(scene.fleet.entries("device.admitted")) == before + 1)
    page.close()


def test_what_a_page_from_elsewhere_asks_is_refused(scene: Scene):
    before = len(scene.fleet.entries("device.admitted"))
    page = scene.operator.page()
    form = (
        f"<form method=post action='{scene.dashboard.url}/act/admit'>"
        "<input name=device value=stolen-1><button>Win</button></form>"
    )
    page.goto(f"data:text/html,{form}")
    with page.expect_navigation():
        page.click("button")
    assert "asked by a page from elsewhere" in page.inner_text("body")
    page.close()
    cookies = {one["name"]: one["value"] for one in scene.operator.context.cookies()}
    for headers in ({"origin": "http://elsewhere.example"}, {"sec-fetch-site": "cross-site"}):
        answer = httpx.post(
            f"{scene.dashboard.url}/act/admit",
            data={"device": "stolen-1"},
            headers=headers,
            cookies=cookies,
        )
        assert answer.status_code == 403
    assert len(scene.fleet.entries("device.admitted")) == before
    scene.operator.problems.clear()


@pytest.mark.nightly  # the coordinator learns of it in end_to_end/test_presence_over_a_broker.py
def test_a_device_that_is_killed_is_shown_as_away(scene: Scene):
    """After about 13 s, of which the broker waits 10 whether it comes back."""
    page, name = scene.operator.page(), scene.fleet.devices[-1]
    page.goto(f"{scene.dashboard.url}/devices/{name}")
    state = page.inner_text("h1")
    scene.fleet.kill(name)
    page.wait_for_function("before => document.querySelector('h1').innerText !== before", arg=state)
    page.close()


def test_nothing_was_asked_of_another_host(scene: Scene):
    asked = scene.operator.requests + scene.viewer.requests
    elsewhere = {urlsplit(url).netloc for url in asked if not url.startswith(("data:", "blob:"))}
    assert elsewhere == {urlsplit(scene.dashboard.url).netloc}
    assert scene.operator.problems + scene.viewer.problems == []


def admit_another(fleet: RealFleet) -> None:
    """Make an entry."""
    fleet.command(AdmitDevice(device=DeviceId(f"another-{fleet.size()}")))
