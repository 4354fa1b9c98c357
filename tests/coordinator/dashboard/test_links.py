"""Every link of every page leads somewhere, in fleets of every kind."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import parse_qs, urljoin, urlsplit

import pytest
from starlette.testclient import TestClient

from tests.coordinator.dashboard.served import a_fleet, browser
from tests.coordinator.every_kind.facts import unpack

MOST = 2000


class Links(HTMLParser):
    """Addresses that a page links to, and the ids that it has."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.ids: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if tag == "a" and values.get("href"):
            self.found.append(str(values["href"]))
        if values.get("id"):
            self.ids.add(str(values["id"]))


def every_kind(folder: Path) -> Path:
    """Return a home whose ledger has every kind of entry."""
    return unpack(folder)


def shape(path: str) -> str:
    """Return an address without its numbers and without what is asked of it."""
    parts = urlsplit(path)
    return re.sub(r"\d+", "N", parts.path) + str(sorted(parse_qs(parts.query)))


def crawl(client: TestClient, alike: int) -> dict[str, Links]:
    """Return pages that links lead to from the first one, by address without its fragment.

    At most `alike` pages of one shape.
    """
    pages: dict[str, Links] = {}
    seen = Counter[str]()
    waiting = [("/", "the beginning")]
    while waiting:
        address, source = waiting.pop()
        parts = urlsplit(address)
        path = parts.path + (f"?{parts.query}" if parts.query else "")
        assert not parts.netloc, f"{address} on {source} leads elsewhere"
        if path not in pages and len(pages) < MOST:
            seen[shape(path)] += 1
            if seen[shape(path)] > alike:
                continue
            answer = client.get(path)
            assert answer.status_code == 200, f"{address} on {source}: {answer.text[:300]}"
            is_page = answer.headers["content-type"].startswith("text/html")
            if not is_page:
                assert json.loads(answer.text)["title"]
            pages[path] = Links(answer.text if is_page else "")
            waiting += [(urljoin(path, link), path) for link in pages[path].found]
        if parts.fragment and parts.path != "/":
            assert parts.fragment in pages[path].ids, f"{address} on {source} has no such place"
    return pages


@pytest.mark.parametrize(
    ("make", "alike"),
    [
        pytest.param(a_fleet, MOST, marks=pytest.mark.nightly),
        pytest.param(every_kind, MOST, marks=pytest.mark.nightly),
        (every_kind, 4),
    ],
)
def test_no_link_is_broken(tmp_path: Path, make: Callable[[Path], Path], alike: int) -> None:
    pages = crawl(browser(make(tmp_path)), alike)
    assert len(pages) < MOST
    assert {"/models/N", "/ledger.json", "/stages/N", "/contributions"} <= {
        re.sub(r"\d+", "N", page) for page in pages
    }
    assert {"/classes", "/trust", "/traffic", "/problems"} <= set(pages)
