"""Pages of rollouts answer whether one may go on, show the evidence, and lead to what one does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from fleetledger.coordinator.dashboard.parts.rollout_plots import (
    evidence_plot,
    evidence_spark,
    exposure_plot,
)
from fleetledger.coordinator.ledger.reader import ledger_of
from fleetledger.coordinator.live.file import LiveFile
from fleetledger.coordinator.live.snapshot import CoordinatorNow, LiveSnapshot
from fleetledger.coordinator.reports.rollouts.lookup import one_rollout
from fleetledger.transport.pages.people import Role
from tests.coordinator.dashboard.asked import told
from tests.coordinator.dashboard.served import browser, settled
from tests.coordinator.reports.rollouts.stories import finished, forgetting, waiting
from tests.coordinator.reports.rollouts.tales import Tale

STORIES: tuple[Callable[[], Tale], ...] = (forgetting, finished, waiting)


def shown(folder: Path, tale: Tale, path: str = "/rollouts/7", role: Role = Role.OPERATOR) -> str:
    client = browser(settled(tale.write(folder)), role=role, now_ns=lambda: tale.now_ns)
    answer = client.get(path, headers={"accept": "text/html"})
    assert answer.status_code == 200, answer.text
    return str(answer.text)


@pytest.mark.parametrize("story", STORIES)
def test_a_rollout_is_drawn_in_every_state(story: Callable[[], Tale], tmp_path: Path) -> None:
    drawn = shown(tmp_path, story())
    assert drawn.count("<h1") == 1
    assert "Where devices stand" in drawn
    assert "fleetledger rollout verify 7" in drawn or "No verdict was written yet" in drawn


def test_the_page_leads_with_why_it_was_paused_and_shows_where_the_limit_was_passed(
    tmp_path: Path,
) -> None:
    drawn = shown(tmp_path, forgetting())
    assert "<h1>Rollout 7 is paused: with model 12, devices forget orange.</h1>" in drawn
    assert "Why it was paused" in drawn
    assert 'aria-label="orange: log e that the candidate is worse stands at 8.4' in drawn
    assert 'class="failed"' in drawn
    assert "most that group 3 allows: 39" in drawn
    assert "self-test over 300 s" in drawn


def test_the_same_is_json(tmp_path: Path) -> None:
    tale = forgetting()
    client = browser(settled(tale.write(tmp_path)), now_ns=lambda: tale.now_ns)
    page = told(client, "/rollouts/7")
    assert page["report"]["rollout"]["stage"] == "paused"
    assert page["report"]["verdict"]["gate"] == "no_class_lost"
    assert client.get("/rollouts/8").status_code == 404
    listed = told(client, "/rollouts")
    assert listed["title"] == page["title"]
    assert [one["number"] for one in listed["rollouts"]] == [7]


def test_without_a_rollout_the_page_says_how_to_plan_one(tmp_path: Path) -> None:
    tale = Tale(())
    tale.begin()
    assert "fleetledger rollout plan" in shown(tmp_path, tale, "/rollouts")


def test_the_limit_is_drawn_between_what_passes_and_what_fails(tmp_path: Path) -> None:
    tale = forgetting()
    with ledger_of(tale.write(tmp_path)) as ledger:
        report = one_rollout(ledger, 7, tale.now_ns)
    orange, *others = report.evidence[-1].classes
    plot = evidence_plot(orange, others, 6.5)
    assert plot is not None
    assert plot.limit is not None
    assert plot.end[1] < plot.limit < plot.zero  # SVG counts downwards
    assert plot.crossing is not None
    assert plot.crossing[1] <= plot.limit
    assert len(plot.others) == 6
    small = evidence_spark(orange, others, 6.5)
    assert small is not None
    assert small.fails
    exposed = exposure_plot(report.exposure)
    assert exposed is not None
    assert exposed.count == 37
    assert [mark.text for mark in exposed.marks] == ["paused"]
    assert evidence_plot(orange.model_copy(update={"points": ()}), (), 6.5) is None


@pytest.mark.parametrize(
    ("action", "said"),
    [
        ("rollout-back", "37 devices that run model 12 switch to model 11."),
        ("rollout-abort", "37 devices go on with model 12, 163 do not get it."),
        ("rollout-resume", "39 devices are in the groups that are open; 37 run it."),
    ],
)
def test_a_button_says_on_how_many_devices_what_happens(
    action: str, said: str, tmp_path: Path
) -> None:
    assert said in shown(tmp_path, forgetting(), f"/act/{action}?rollout=7")


def test_buttons_of_a_paused_rollout_lead_to_its_three_ways_out(tmp_path: Path) -> None:
    drawn = shown(tmp_path, forgetting())
    for action in ("rollout-back", "rollout-resume", "rollout-abort"):
        assert f'href="/act/{action}?rollout=7"' in drawn
    assert "Pause is off because it is paused already." in drawn
    assert "Go back to model 11" in drawn


def test_the_fleets_title_names_the_decision_that_is_waited_for(tmp_path: Path) -> None:
    tale = forgetting()
    home = settled(tale.write(tmp_path))
    now = CoordinatorNow(
        fleet="orchard",
        version="0.1.0",
        pid=1,
        started_ns=0,
        written_ns=tale.now_ns,
        connected=True,
    )
    LiveFile(home).write(LiveSnapshot(coordinator=now))
    title = told(browser(home, now_ns=lambda: tale.now_ns), "/")["title"]
    assert title == "The fleet works. Rollout 7 waits for your decision; two more things need you."


def test_models_and_devices_lead_to_their_rollouts(tmp_path: Path) -> None:
    assert 'href="/rollouts/7"' in shown(tmp_path, forgetting(), "/models/12")
    tale = forgetting()
    home = settled(tale.write(tmp_path / "other"))
    device = tale.members(1)[0]
    page = browser(home, now_ns=lambda: tale.now_ns).get(f"/devices/{device}").text
    assert 'href="/rollouts/7"' in page
