"""Chromium, and what a person and a judge of accessibility see in it."""

from __future__ import annotations

import hashlib
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urldefrag, urlsplit

import pytest

from fleetledger.coordinator.dashboard.page import Page

AXE = Path(__file__).parent / "axe" / "axe.min.js"
AXE_SHA256 = "29348999450cdf2849a8e70b7912fc2da85a849da39c0d0d5394f51d4a9ed95c"
SIZES = {"wide": (1280, 900, "light"), "narrow": (390, 844, "dark")}
"""Width, height, and the scheme of colours: no width has colours of its own."""
_TOO_WIDE = """() => {
    const whole = document.scrollingElement;
    if (whole.scrollWidth <= whole.clientWidth) return [];
    return [...document.querySelectorAll("main *")]
        .filter((one) => !one.closest(".scroll"))
        .filter((one) => one.getBoundingClientRect().right > whole.clientWidth)
        .map((one) => one.outerHTML.slice(0, 120));
}"""


_CUT = """() => [...document.querySelectorAll("main .scroll")]
    .filter((one) => one.scrollWidth > one.clientWidth + 1 && !one.querySelector(".broad"))
    .map((one) => one.outerHTML.slice(0, 120))"""


@dataclass
class Browsing:
    """A browser's context, which notes everything that is asked for, and what goes wrong."""

    context: Any
    requests: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.context.on("request", lambda request: self.requests.append(request.url))
        self.context.on("weberror", lambda error: self.problems.append(str(error.error)))
        self.context.on("console", self._note)

    def page(self) -> Any:
        """Return a new page."""
        page = self.context.new_page()
        page.set_default_timeout(60_000)
        return page

    def come_in(self, link: str) -> Any:
        """Come in by a link that works once, as a person does; return the page."""
        page = self.page()
        page.goto(link)
        page.click("main button")
        page.wait_for_selector("nav")
        return page

    def _note(self, message: Any) -> None:
        if message.type in {"error", "warning"}:
            self.problems.append(f"{message.location.get('url')}: {message.text}")


@contextmanager
def chromium() -> Iterator[Any]:
    """Yield Debian's Chromium; skip the test where it, or what drives it, is not there."""
    path = shutil.which("chromium")
    if path is None:
        pytest.skip("no chromium on the PATH: apt install chromium")
    api = pytest.importorskip("playwright.sync_api", reason="pip install playwright")
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        try:
            yield browser
        finally:
            browser.close()


def example_pages(page: Any, url: str, pages: tuple[Page, ...]) -> dict[str, str]:
    """Return an address of each kind of page, by following links from the first one."""
    found: dict[str, str] = {}
    ahead = [f"{url}/"]
    seen = set(ahead)
    while ahead and len(found) < len(pages):
        address = ahead.pop(0)
        name = _name_of(urlsplit(address).path, pages)
        if name is None or name in found:
            continue
        found[name] = address
        page.goto(address)
        for link in page.eval_on_selector_all(
            "a[href]", "links => links.map(a => new URL(a.getAttribute('href'), location).href)"
        ):
            bare = urldefrag(link).url
            if bare.startswith(url) and bare not in seen:
                seen.add(bare)
                ahead.append(bare)
    return found


def wrong_in_sizes(page: Any) -> list[str]:
    """Return what stands out of a window, and what axe finds, in every size."""
    wrong = []
    for size, (width, height, scheme) in SIZES.items():
        page.set_viewport_size({"width": width, "height": height})
        page.emulate_media(color_scheme=scheme)
        wrong += [f"{size}: too wide: {one}" for one in too_wide(page)]
        wrong += [f"{size}, {scheme}: {one}" for one in violations(page)]
    return wrong


def violations(page: Any) -> list[str]:
    """Return what axe finds on a page that is serious or critical."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(_axe())
    found = page.evaluate("() => axe.run({resultTypes: ['violations']})")
    return [
        f"{one['id']} ({one['impact']}): {one['nodes'][0]['html']}"
        for one in found["violations"]
        if one["impact"] in {"serious", "critical"}
    ]


def too_wide(page: Any) -> list[str]:
    """Return what makes a page wider than its window: nothing, or the elements that stand out."""
    return list(page.evaluate(_TOO_WIDE))


def cut(page: Any) -> list[str]:
    """Return tables of which a part is outside, but for the line of versions, which is long."""
    return list(page.evaluate(_CUT))


def _name_of(path: str, pages: tuple[Page, ...]) -> str | None:
    for page in pages:
        pattern = re.sub(r"\\{[^}]*\\}", "[^/]+", re.escape(page.path))
        if re.fullmatch(pattern, path):
            return page.name
    return None


@cache
def _axe() -> str:
    source = AXE.read_bytes()
    assert hashlib.sha256(source).hexdigest() == AXE_SHA256
    return source.decode("utf-8")
