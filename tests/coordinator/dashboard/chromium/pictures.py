"""Make the pictures of the dashboard in the documentation, from a run of real programs.

    python -m tests.coordinator.dashboard.chromium.pictures

The demo's five devices learn ten digits; then one is ended without a word, and Chromium takes the
pictures into `docs/images/dashboard/`, with a palette of 256 colours, which keeps them small. The
page of the inspection is of fourteen devices with digits, of which two label wrongly.
"""

from __future__ import annotations

import sys
import tempfile
import time
from io import BytesIO
from pathlib import Path
from typing import Any

from PIL import Image

from fleetledger.coordinator.dashboard.pages import PAGES
from tests.coordinator.dashboard.chromium.browsing import (
    Browsing,
    chromium,
    cut,
    example_pages,
    too_wide,
    violations,
)
from tests.coordinator.dashboard.chromium.fleet import DashboardProgram, RealFleet
from tests.coordinator.dashboard.chromium.fleets import Fleet, served
from tests.coordinator.dashboard.served import settled
from tests.coordinator.models.digit_home import dealt, write_home

OUT = Path(__file__).parents[4] / "docs" / "images" / "dashboard"
MOST_BYTES = 150_000
WIDE, NARROW = (1280, 1000), (390, 1000)
SHOTS = (
    ("fleet", "light", WIDE),
    ("fleet", "dark", WIDE),
    ("fleet", "light", NARROW),
    ("device", "light", WIDE),
    ("model", "light", WIDE),
    ("ledger", "light", WIDE),
)
"""Page, colours, width and the greatest height."""


def main() -> None:
    """Make all pictures of pages that there are."""
    with tempfile.TemporaryDirectory() as folder, chromium() as browser:
        fleet = RealFleet(Path(folder, "seed-0"))
        try:
            while fleet.stages:
                fleet.learn()
            dashboard = DashboardProgram(fleet.home)
            try:
                take_inspection(browser, Path(folder, "inspected"))
                _take(fleet, dashboard, Browsing(browser.new_context()))
            finally:
                dashboard.stop()
        finally:
            fleet.close()


def take_inspection(browser: Any, home: Path) -> None:
    """Make the picture of an inspection that finds two devices."""
    write_home(home, dealt(14, (7, 9)))
    with served(Fleet(settled(home), time.time_ns(), ())) as (url, cookie):
        browsing = Browsing(browser.new_context())
        browsing.context.add_cookies([cookie])
        page = browsing.page()
        page.goto(f"{url}/inspection")
        page.click("text=Inspect now")
        while page.query_selector("text=dev-7, class by class") is None:
            page.reload()
        shoot(page, OUT / "inspection-light.png", "light", (1280, 1000))
        wrong = [*too_wide(page), *cut(page), *violations(page)]
        assert not wrong, wrong


def _take(fleet: RealFleet, dashboard: DashboardProgram, browsing: Browsing) -> None:
    page = browsing.come_in(dashboard.links["operator"])
    gone = fleet.devices[-1]
    fleet.kill(gone)
    page.goto(f"{dashboard.url}/devices/{gone}")
    before = page.inner_text("h1")
    page.wait_for_function(
        "before => document.querySelector('h1').innerText !== before", arg=before
    )
    addresses = example_pages(page, dashboard.url, PAGES)
    versions = [entry.body["version"] for entry in fleet.entries("model.exported")]
    addresses["model"] = f"{dashboard.url}/models/{max(versions)}"
    given = fleet.entries("contribution.accepted")[-1].index
    addresses["ledger"] = f"{dashboard.url}/ledger?entry={given}"
    OUT.mkdir(parents=True, exist_ok=True)
    for name, scheme, size in SHOTS:
        if name in addresses:
            page.goto(addresses[name])
            suffix = "narrow" if size is NARROW else scheme
            shoot(page, OUT / f"{name}-{suffix}.png", scheme, size)


def shoot(page: Any, path: Path, scheme: str, size: tuple[int, int]) -> None:
    """Take a picture of a page, in 256 colours."""
    width, most = size
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": width, "height": most})
    page.wait_for_load_state("load")
    height = min(most, page.evaluate("document.scrollingElement.scrollHeight"))
    taken = page.screenshot(clip={"x": 0, "y": 0, "width": width, "height": height})
    picture = Image.open(BytesIO(taken)).convert("RGB")
    picture.quantize(256, dither=Image.Dither.NONE).save(path, optimize=True)
    size_bytes = path.stat().st_size
    sys.stdout.write(f"{path.name}: {width} x {height}, {size_bytes:,} bytes\n")
    assert size_bytes < MOST_BYTES, f"{path}: make it smaller"


if __name__ == "__main__":
    main()
