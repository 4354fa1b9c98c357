"""Somebody looks at a rollout while it is paused: the page says so by itself, in every size."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.coordinator.dashboard.chromium.browsing import (
    Browsing,
    chromium,
    wrong_in_sizes,
)
from tests.coordinator.dashboard.chromium.fleet import DashboardProgram
from tests.coordinator.dashboard.served import settled
from tests.coordinator.reports.rollouts.stories import finished, forgetting, waiting
from tests.coordinator.reports.rollouts.tales import Tale

pytestmark = [pytest.mark.chromium, pytest.mark.slow]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as found:
        yield found


@pytest.mark.parametrize(
    "story",
    [
        forgetting,
        *(pytest.param(story, marks=pytest.mark.nightly) for story in (finished, waiting)),
    ],
)
def test_pages_of_rollouts_are_whole_readable_and_open_to_everybody(
    story: Any, browser: Any, tmp_path: Path
) -> None:
    dashboard = DashboardProgram(settled(story().write(tmp_path)))
    try:
        browsing = Browsing(browser.new_context())
        page = browsing.come_in(dashboard.links["operator"])
        wrong = []
        for path in ("rollouts", "rollouts/7"):
            page.goto(f"{dashboard.url}/{path}")
            wrong += [f"{path}, {one}" for one in wrong_in_sizes(page)]
        assert not wrong, "\n".join(wrong)
        assert browsing.problems == []
    finally:
        dashboard.stop()


def test_an_open_page_says_that_it_was_paused_and_why(browser: Any, tmp_path: Path) -> None:
    tale = forgetting()
    evidence = len(tale.entries) - 40
    dashboard = DashboardProgram(settled(part(tale, 0, evidence).write(tmp_path)))
    try:
        page = Browsing(browser.new_context()).come_in(dashboard.links["operator"])
        page.goto(f"{dashboard.url}/rollouts/7")
        page.evaluate("window.since = 'the page was opened'")
        before = page.inner_html("section[aria-labelledby=evidence]")
        assert "paused" not in page.inner_text("h1")
        part(tale, evidence, None).write(tmp_path)
        page.wait_for_function("() => document.querySelector('h1').innerText.includes('is paused')")
        page.wait_for_selector("#doing >> text=Resume group 3")
        page.wait_for_selector("text=Why it was paused")
        assert page.inner_html("section[aria-labelledby=evidence]") != before
        assert page.evaluate("window.since") == "the page was opened"
    finally:
        dashboard.stop()


def part(tale: Tale, first: int, last: int | None) -> Tale:
    """Return some entries of a tale, to be written after those before them."""
    return replace(tale, entries=tale.entries[first:last])
