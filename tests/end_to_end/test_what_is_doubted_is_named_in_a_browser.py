"""Camera, doubt, label, contribution, model: a class that nobody had becomes one that devices know.

Real programs on Mosquitto; an application shows a new digit, its owner names it in Chromium.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fleetledger
from fleetledger.simulator.engines.mqtt.processes import Children
from fleetledger.transport.brokers import MosquittoBroker
from tests.coordinator.dashboard.chromium.browsing import Browsing, chromium
from tests.coordinator.reports import of_home
from tests.end_to_end.labelling_fleet import (
    DEVICES,
    KNOWN,
    NEW,
    LabellingFleet,
    kept_apart,
    shown,
)

pytestmark = [pytest.mark.broker, pytest.mark.chromium, pytest.mark.slow]
SEER, OTHER = DEVICES


@pytest.fixture
def browser() -> Iterator[Any]:
    with chromium() as found:
        yield found


@pytest.fixture
def fleet(tmp_path: Path, mosquitto: MosquittoBroker) -> Iterator[LabellingFleet]:
    """Two agents whose model knows three digits."""
    with Children(tmp_path) as children:
        made = LabellingFleet(tmp_path, mosquitto, children)
        made.learn_known()
        yield made


def test_a_class_that_nobody_had_is_known_by_all_devices(
    browser: Any, fleet: LabellingFleet
) -> None:
    noise = np.random.default_rng(5).integers(0, 256, (8, 8), dtype=np.uint8)
    with fleetledger.active_model(fleet.folder / SEER) as application:
        guesses = {application.classify(frame).name for frame in shown()}
    # An application may doubt by itself, as one does whose lens is dirty.
    fleet.inbox(SEER).offer(noise, 0.99, "zero", 1)
    assert guesses <= set(KNOWN)
    waiting = fleet.inbox(SEER).waiting()
    assert len(waiting) > 10

    browsing = Browsing(browser.new_context())
    page = browsing.page()
    page.goto(fleet.label_link(SEER))
    page.click("main button")
    page.wait_for_selector(f"text={len(waiting)} images wait for a name.")
    throw_away(page, next(one.digest for one in waiting if one.doubt == 0.99))
    page.wait_for_selector(f"text={len(waiting) - 1} images wait for a name.")
    page.press(".tiles input >> nth=0", "a")
    page.keyboard.press("n")
    page.keyboard.type(NEW)
    page.keyboard.press("Enter")
    page.wait_for_selector("text=No image waits for a name.")
    assert f"{len(waiting) - 1} images are {NEW} now, a new class." in page.inner_text("main")
    assert browsing.problems == []

    fleet.until(lambda: all(NEW in fleet.known_by(device) for device in DEVICES))
    first, second = of_home.stages(fleet.home)
    assert first.opened_by == "operator"
    assert second.opened_by.startswith("reports of 1 device")
    assert not (fleet.folder / OTHER / "data" / NEW).exists()
    for device in DEVICES:
        for name in (*KNOWN, NEW):
            answers = fleet.answers(device, kept_apart(name))
            assert answers.count(name) > 0.85 * len(answers), (device, name, answers)


def throw_away(page: Any, digest: str) -> None:
    page.check(f"input[value='{digest}']")
    page.click("#away")
