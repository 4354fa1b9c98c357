"""Make the pictures of `agent label` in the documentation, from a run of real programs.

    python -m tests.end_to_end.label_pictures

A model that knows three digits doubts a fourth; Chromium takes the pictures into
`docs/images/label/`.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import fleetledger
from fleetledger.simulator.engines.mqtt.processes import Children
from fleetledger.transport.brokers import MosquittoBroker
from tests.coordinator.dashboard.chromium.browsing import Browsing, chromium
from tests.coordinator.dashboard.chromium.pictures import shoot
from tests.end_to_end.labelling_fleet import DEVICES, LabellingFleet, shown

OUT = Path(__file__).parents[2] / "docs" / "images" / "label"
WIDE, NARROW = (1280, 820), (420, 860)


def main() -> None:
    """Make both pictures."""
    OUT.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name, chromium() as browser:
        folder = Path(name)
        (folder / "logs").mkdir()
        with (
            MosquittoBroker(folder / "broker", DEVICES) as broker,
            Children(folder / "logs") as children,
        ):
            fleet = LabellingFleet(folder, broker, children)
            fleet.learn_known()
            with fleetledger.active_model(folder / DEVICES[0]) as application:
                for frame in shown():
                    application.classify(frame)
            _take(Browsing(browser.new_context()).page(), fleet.label_link(DEVICES[0]))


def _take(page: Any, link: str) -> None:
    page.goto(link)
    page.click("main button")
    page.set_viewport_size({"width": WIDE[0], "height": WIDE[1]})
    page.wait_for_selector(".tiles input")
    for number in (0, 2, 3):
        page.check(f".tiles input >> nth={number}")
    page.fill("#new", "seven")
    page.focus("#new")
    shoot(page, OUT / "label-wide.png", "light", WIDE)
    page.set_viewport_size({"width": NARROW[0], "height": NARROW[1]})
    shoot(page, OUT / "label-narrow.png", "dark", NARROW)


if __name__ == "__main__":
    main()
