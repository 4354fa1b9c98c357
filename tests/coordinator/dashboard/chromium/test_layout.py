"""Pages of fleets that are hard to lay out fit every window, and are open to everybody."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fleetledger.coordinator.dashboard.home_switch import HomeToShow, StartedDashboard
from tests.coordinator.dashboard.chromium.browsing import (
    Browsing,
    chromium,
    cut,
    too_wide,
    violations,
)
from tests.coordinator.dashboard.chromium.fleets import (
    FLEETS,
    Fleet,
    empty,
    ended,
    five,
    long_names,
    served,
)

pytestmark = [pytest.mark.chromium, pytest.mark.slow]
WIDTHS = (1440, 1100, 390)
OTHERWISE_UNSEEN = {empty, long_names, ended}
"""Fleets whose pages no other test shows to axe."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as found:
        yield found


@pytest.mark.parametrize(
    "make",
    [
        make if make in OTHERWISE_UNSEEN else pytest.param(make, marks=pytest.mark.nightly)
        for make in FLEETS
    ],
)
def test_no_page_scrolls_sideways_or_hides_a_part_of_a_table(
    make: Callable[[Path], Fleet], browser: Any, tmp_path: Path
) -> None:
    fleet = make(tmp_path / "home")
    with served(fleet) as (url, cookie):
        browsing = Browsing(browser.new_context())
        browsing.context.add_cookies([cookie])
        page, wrong = browsing.page(), []
        for place, path in enumerate(fleet.paths):
            page.goto(f"{url}{path}")
            for width in WIDTHS:
                page.set_viewport_size({"width": width, "height": 900})
                wrong += [f"{path}, {width}: too wide: {one}" for one in too_wide(page)]
                wrong += [f"{path}, {width}: cut: {one}" for one in cut(page)]
            if make in OTHERWISE_UNSEEN:
                page.emulate_media(color_scheme="dark" if place % 2 else "light")
                wrong += [f"{path}: {one}" for one in violations(page)]
        browsing.context.close()
    assert not wrong, "\n".join(wrong)
    assert all(problem.partition(": ")[0].endswith("/nobody") for problem in browsing.problems)


def test_a_page_of_a_fleet_that_is_made_ready_turns_into_the_fleet(
    browser: Any, tmp_path: Path
) -> None:
    command = [sys.executable, "-m", "fleetledger.coordinator.dashboard.home_switch", "--port", "0"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, text=True, **pipes) as program:
        assert program.stdin is not None
        assert program.stdout is not None
        started = StartedDashboard.model_validate_json(program.stdout.readline())
        page = Browsing(browser.new_context()).page()
        page.goto(started.link)
        assert "is being made ready" in page.inner_text("h1")
        home = five(tmp_path / "home").home
        program.stdin.write(HomeToShow(home=home).model_dump_json() + "\n")
        program.stdin.flush()
        page.click("main button")
        page.wait_for_selector("#device-rows tr")
        program.stdin.close()


def test_the_page_of_an_empty_fleet_turns_into_the_fleet(browser: Any, tmp_path: Path) -> None:
    fleet = empty(tmp_path / "home")
    with served(fleet) as (url, cookie):
        browsing = Browsing(browser.new_context())
        browsing.context.add_cookies([cookie])
        page = browsing.page()
        page.goto(url)
        assert page.locator("main code.command").count() == 3
        (fleet.home / "coordinator.toml").unlink()
        five(fleet.home)
        page.wait_for_selector("#device-rows tr")
        browsing.context.close()
