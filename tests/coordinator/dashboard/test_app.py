"""What every page of the dashboard has, and what is refused before any page is made."""

from __future__ import annotations

import hashlib
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from fleetledger.coordinator import dashboard
from fleetledger.coordinator.dashboard.app import make_app
from fleetledger.coordinator.dashboard.page import Page, PageModel
from fleetledger.coordinator.dashboard.pages import PAGES
from fleetledger.coordinator.dashboard.sources import Asked, Sources
from fleetledger.runtime.settings_file import SettingsError
from fleetledger.runtime.shown_commands import OF_OPERATORS
from tests.coordinator.dashboard.served import a_fleet, browser, settled
from tests.coordinator.dashboard.vendored import VENDORED, Vendored

STATIC = Path(dashboard.__file__).parent / "static"
ADDRESSES = [
    *("/", "/devices/dev-1", "/models", "/models/1", "/stages", "/stages/1", "/contributions"),
    "/inspection",
    *("/classes", "/ledger", "/trust", "/traffic", "/problems", "/rollouts"),
]
"""One of each page, in the fleet that tests make."""


class Elements(HTMLParser):
    """The elements of a page, with their attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.drawings = 0
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.drawings += tag == "svg"
        # What a drawing says of one of its paths is no title of the page.
        self.found.append(("svg title" if self.drawings and tag == "title" else tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        self.drawings -= tag == "svg"

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.found if name == tag]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return a_fleet(tmp_path_factory.mktemp("home"))


def test_every_page_is_named_here() -> None:
    """Only those of a round and a rollout are not: this fleet sends statistics, to everybody."""
    paths = [page.path for page in PAGES if page.name not in {"round", "rollout"}]
    shapes = [re.compile(re.sub(r"\{\w+\}", "[^/]+", path)) for path in paths]
    assert all(any(shape.fullmatch(path) for path in ADDRESSES) for shape in shapes)


@pytest.mark.parametrize("path", ADDRESSES)
def test_a_page_has_landmarks_and_says_as_of_when_it_is(home: Path, path: str) -> None:
    answer = browser(home).get(path)
    page = Elements(answer.text)
    assert answer.status_code == 200
    for tag in ("header", "nav", "main", "footer", "h1", "title"):
        assert len(page.all(tag)) == 1, tag
    assert page.all("a")[0] == {"class": "skip", "href": "#main"}
    assert page.all("html") == [{"lang": "en"}]
    assert "as of" in answer.text.lower()
    assert "ana, viewer" in answer.text
    assert [link for link in page.all("a") if link.get("href", "").endswith(".json")]
    ids = [values["id"] for _, values in page.found if "id" in values]
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize("path", ADDRESSES)
def test_nothing_on_a_page_is_inline_or_from_elsewhere(home: Path, path: str) -> None:
    page = Elements(browser(home).get(path).text)
    for _, attributes in page.found:
        assert "style" not in attributes
        assert not [name for name in attributes if name.startswith(("on", "hx-on"))]
        for name in ("href", "src", "action"):
            assert (attributes.get(name) or "/").startswith(("/", "#")), attributes
    assert not page.all("style")
    assert all("src" in script for script in page.all("script"))


@pytest.mark.parametrize("path", ADDRESSES)
def test_a_page_is_also_json_which_says_what_the_page_says(home: Path, path: str) -> None:
    client = browser(home)
    page = Elements(client.get(path).text)
    (address,) = {a["href"] for a in page.all("a") if (a.get("href") or "").endswith(".json")}
    told = client.get(str(address)).json()
    assert told == client.get(path, headers={"accept": "application/json"}).json()
    assert told["title"]
    preferred = "text/html,application/xhtml+xml,application/json;q=0.9"
    assert client.get(path, headers={"accept": preferred}).text.startswith("<!doctype html>")


@pytest.mark.parametrize("path", [*ADDRESSES, "/nowhere", "/livez", "/static/dashboard.css"])
def test_every_answer_tells_the_browser_what_it_may_do(home: Path, path: str) -> None:
    headers = browser(home).get(path).headers
    assert headers["content-security-policy"] == (
        "default-src 'self'; base-uri 'none'; frame-ancestors 'none'; form-action 'self'"
    )
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "same-origin"
    assert ("no-store" in headers["cache-control"]) is not path.startswith("/static")


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8787", "", "127.0.0.1.evil.net"])
def test_a_host_name_that_is_not_the_dashboards_is_refused(home: Path, host: str) -> None:
    answer = browser(home).get("/", headers={"host": host})
    assert answer.status_code == 421
    assert "--allowed-host" in answer.text


@pytest.mark.parametrize("host", ["localhost:9", "127.0.0.1", "[::1]:8787", "Fleet.example"])
def test_names_of_this_machine_and_those_that_were_told_are_answered(home: Path, host: str) -> None:
    client = browser(home, hosts=["fleet.example"])
    assert client.get("/livez", headers={"host": host}).status_code == 200


def test_too_long_addresses_and_bodies_are_refused(home: Path) -> None:
    client = browser(home)
    assert client.get("/?" + "a" * 5000).status_code == 414
    assert client.post("/", content=b"a" * 70_000).status_code == 413


def test_what_is_not_there_is_told_in_words_as_a_page_and_as_json(home: Path) -> None:
    client = browser(home)
    answer = client.get("/devices/nobody")
    assert answer.status_code == 404
    assert "No device of the name nobody was admitted." in answer.text
    told = client.get("/devices/nobody.json")
    assert (told.status_code, told.json()["status"]) == (404, 404)
    assert client.get("/nowhere").status_code == 404


def test_without_a_ledger_the_page_says_the_next_three_commands(tmp_path: Path) -> None:
    client = browser(settled(tmp_path))
    answer = client.get("/")
    assert answer.status_code == 200
    for command in ("coordinator provision", "model import-backbone", "coordinator serve"):
        assert f"fleetledger {command}" in answer.text
    assert answer.text.count(f"--home {tmp_path}") == 3
    assert client.get("/fleet.json").json()["status"] == 200


def test_without_settings_there_is_no_dashboard(tmp_path: Path) -> None:
    with pytest.raises(SettingsError):
        make_app(tmp_path)


def test_a_page_that_fails_says_so_and_shows_nothing_of_its_inside(home: Path) -> None:
    def fails(_sources: Sources, _asked: Asked) -> PageModel:
        raise RuntimeError("an inside of it")

    answer = browser(home, pages=(Page("fleet", "/", fails),)).get("/")
    assert answer.status_code == 500
    assert "This page failed." in answer.text
    assert "an inside" not in answer.text


class Hostile(PageModel):
    """A page of what a device gave."""

    text: str


TEXT = "<script>alert(1)</script>\x07\u202egnp.exe\u2028 \"'&"


def test_texts_of_devices_are_escaped_and_what_cannot_be_seen_is_written_out(home: Path) -> None:
    def read(_sources: Sources, _asked: Asked) -> Hostile:
        return Hostile(title=f"A class is called {TEXT}", text=TEXT)

    text = browser(home, pages=(Page("error", "/", read),)).get("/").text
    assert "<script>alert" not in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
    assert r"\u0007\u202egnp.exe\u2028" in text
    assert not {"\x07", "\u202e", "\u2028"} & set(text)
    assert json.loads(browser(home, pages=(Page("error", "/", read),)).get("/fleet.json").text)


@pytest.mark.parametrize("item", VENDORED, ids=lambda item: item.file)
def test_files_of_other_projects_are_as_they_were_published(item: Vendored) -> None:
    assert hashlib.sha256((STATIC / item.file).read_bytes()).hexdigest() == item.sha256
    assert item.licence == "0BSD"


def test_every_file_of_another_project_is_in_the_table() -> None:
    ours = {"dashboard.css", "live.js", "THIRD-PARTY.md"}
    assert {path.name for path in STATIC.iterdir()} - ours == {item.file for item in VENDORED}


def test_static_files_are_kept_by_an_address_that_names_their_content(home: Path) -> None:
    client = browser(home)
    page = Elements(client.get("/").text)
    addresses = [script["src"] for script in page.all("script")]
    assert addresses
    for address in addresses:
        assert re.search(r"\?v=[0-9a-f]{12}$", str(address))
        assert "immutable" in client.get(str(address)).headers["cache-control"]


@pytest.mark.parametrize("path", ADDRESSES)
def test_every_command_on_a_page_finds_the_coordinators_home(home: Path, path: str) -> None:
    text = browser(home).get(path).text
    found = re.findall(r"(?:`|tabindex=.0.>|\n)(fleetledger [^`<\n]+)", text)
    wanted = [line for line in found if line.split()[1] in OF_OPERATORS and "audit" not in line]
    assert not [line for line in wanted if f"--home {home}" not in line]
    assert found or path not in {"/trust", "/models/1", "/devices/dev-1", "/ledger"}


def test_who_has_not_come_in_is_told_no_folder(home: Path) -> None:
    assert str(home) not in browser(home, role=None).get("/").text
