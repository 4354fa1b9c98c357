"""Images are named in Chromium by keys, in every size, with and without scripts."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from fleetledger.device_agent.apps.label_page.application import LabelDesk, make_app
from fleetledger.device_agent.home.home import AgentHome
from fleetledger.transport.pages.people import Person, Role
from fleetledger.transport.pages.server import ListenAddress, link_of, listen, server_of
from tests.coordinator.dashboard.chromium.browsing import (
    Browsing,
    chromium,
    wrong_in_sizes,
)
from tests.device_agent.models.inbox.doubting import a_home, doubt

pytestmark = pytest.mark.chromium


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as found:
        yield found


@pytest.fixture
def home(tmp_path: Path) -> AgentHome:
    return a_home(tmp_path / "home")


@contextmanager
def served(home: AgentHome) -> Iterator[str]:
    """Yield a link to the page of a home, which is served meanwhile."""
    app, listening = make_app(LabelDesk(home)), ListenAddress()
    with listen(listening) as listener:
        server = server_of(app, listening)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            url = listening.url(listener.getsockname()[1])
            yield link_of(app.state.doors, url, Person("ana", Role.OPERATOR))
        finally:
            server.should_exit = True
            thread.join()


def come_in(browsing: Browsing, link: str) -> Any:
    page = browsing.page()
    page.goto(link)
    page.click("main button")
    page.wait_for_selector("#page")
    return page


def test_the_page_is_whole_readable_and_open_to_everybody(browser: Any, home: AgentHome) -> None:
    for number in range(30):
        (home.data_folder / f"class number {number}").mkdir()
    images = doubt(home, *range(7))
    with served(home) as link:
        page = come_in(Browsing(browser.new_context()), link)
        page.check(f"input[value='{images[1]}']")
        page.click("[data-key='1']")
        page.wait_for_selector("#undo")
        page.check(f"input[value='{images[2]}']")
        wrong = []
        wrong += wrong_in_sizes(page)
        assert not wrong, "\n".join(wrong)


def test_images_are_named_by_keys_alone(browser: Any, home: AgentHome) -> None:
    images = doubt(home, *range(6))
    with served(home) as link:
        browsing = Browsing(browser.new_context())
        page = come_in(browsing, link)
        press = page.keyboard.press
        assert page.evaluate("document.activeElement.value") == images[0]

        def until(count: int) -> None:
            counted = "count => document.querySelectorAll('.tiles li').length === count"
            page.wait_for_function(counted, arg=count)

        press("ArrowRight")
        press("2")
        until(5)
        assert page.evaluate("document.activeElement.value") == images[2], "it goes on from there"
        press("Enter")
        until(4)
        press("Space")
        press("ArrowRight")
        press("Space")
        page.wait_for_selector("text=2 images are chosen")
        press("n")
        page.keyboard.type("quince")
        press("Enter")
        until(2)
        press("x")
        until(1)
        press("u")
        until(2)
        assert browsing.problems == []
    counts = {path.name: len(list(path.iterdir())) for path in home.data_folder.iterdir()}
    assert counts == {"apple": 1, "pear": 1, "quince": 2}


def test_what_comes_meanwhile_is_told_and_an_empty_page_fills_itself(
    browser: Any, home: AgentHome
) -> None:
    with served(home) as link:
        page = come_in(Browsing(browser.new_context()), link)
        page.wait_for_selector("text=No image waits for a name.")
        doubt(home, 0)
        page.wait_for_selector("text=1 image waits for a name.")
        doubt(home, 1)
        page.click("#news button")
        page.wait_for_selector("text=2 images wait for a name.")


def test_it_works_without_scripts(browser: Any, home: AgentHome) -> None:
    first, second = doubt(home, 0, 1)
    with served(home) as link:
        page = come_in(Browsing(browser.new_context(java_script_enabled=False)), link)
        page.check(f"input[value='{second}']")
        page.fill("#new", "quince")
        page.press("#new", "Enter")
        page.wait_for_selector("text=1 image is quince now, a new class.")
        page.click("text=Take it back")
        page.wait_for_selector("text=2 images wait for a name.")
        page.click("button:has-text('It is apple') >> nth=0")
        page.wait_for_selector("text=1 image is apple now.")
    assert [path.stem for path in (home.data_folder / "apple").iterdir()] == [first]
