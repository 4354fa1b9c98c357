"""Who is let in, by what, for how long, and what a page from elsewhere can do: nothing."""

from __future__ import annotations

import stat
import time
from pathlib import Path

import pytest
from starlette.testclient import TestClient
from typer.testing import CliRunner

from fleetledger.coordinator.dashboard.cli import app
from fleetledger.runtime.log_lines import event_of
from fleetledger.transport.pages.doors import FAILURES, IDLE_SECONDS, LINK_SECONDS, Doors
from fleetledger.transport.pages.people import Person, PersonError, Role
from tests.coordinator.dashboard.metrics.scraping import NOW_NS
from tests.coordinator.dashboard.served import ADDRESS, a_fleet, browser

SECOND = 10**9
HERE = {"origin": ADDRESS}


class Clock:
    def __init__(self) -> None:
        self.ns = NOW_NS

    def __call__(self) -> int:
        return self.ns


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return a_fleet(tmp_path)


def a_link(home: Path, role: Role = Role.VIEWER) -> str:
    return Doors.of(home, lambda: NOW_NS).links.make(Person("ana", role), NOW_NS)


def enter(client: TestClient, secret: str, target: str = "/") -> int:
    fields = {"token": secret, "next": target}
    return client.post("/login", data=fields, headers=HERE).status_code


def test_who_has_nothing_is_led_to_the_way_in_and_back(home: Path) -> None:
    client = browser(home, role=None)
    answer = client.get("/devices/dev-1?x=1")
    assert answer.status_code == 303
    assert answer.headers["location"] == "/login?next=%2Fdevices%2Fdev-1%3Fx%3D1"
    page = client.get(answer.headers["location"])
    assert "dev-1" in page.text  # where to go on, which they have said themselves
    assert "fleetledger dashboard link" in page.text
    assert '<nav aria-label="Pages">' not in page.text


@pytest.mark.parametrize("path", ["/fleet.json", "/metrics", "/events", "/devices/dev-1.json"])
def test_programs_are_told_in_words_to_come_in(home: Path, path: str) -> None:
    answer = browser(home, role=None).get(path)
    assert answer.status_code == 401
    assert "Bearer" in answer.headers["www-authenticate"]
    assert "dashboard token" in answer.text


@pytest.mark.parametrize("path", ["/livez", "/readyz", "/static/dashboard.css", "/login"])
def test_what_names_no_device_is_open(home: Path, path: str) -> None:
    assert browser(home, role=None).get(path).status_code in {200, 503}


def test_a_link_lets_in_once_and_is_not_used_up_by_being_looked_at(home: Path) -> None:
    client, secret = browser(home, role=None), a_link(home)
    for _ in range(2):
        page = client.get(f"/login?token={secret}")
        assert page.status_code == 200
        assert "set-cookie" not in page.headers
    answer = client.post("/login", data={"token": secret, "next": "/"}, headers=HERE)
    assert answer.headers["location"] == "/"
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert "secure" not in cookie
    assert client.get("/").status_code == 200
    assert enter(browser(home, role=None), secret) == 403


def test_who_comes_in_and_who_cannot_is_logged(
    home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "dashboard")
    client, secret = browser(home, role=None), a_link(home)
    enter(client, secret)
    enter(client, secret)
    events = [event_of(line) for line in caplog.records if line.name == "dashboard"]
    assert [event.name for event in events if event] == ["login.done", "login.refused"]
    assert "ana came in as viewer" in caplog.text
    assert secret not in caplog.text


def test_over_tls_the_cookie_is_secure(home: Path) -> None:
    client = browser(home, role=None)
    client.base_url = client.base_url.copy_with(scheme="https")
    origin = {"origin": ADDRESS.replace("http", "https")}
    answer = client.post("/login", data={"token": a_link(home)}, headers=origin)
    assert "secure" in answer.headers["set-cookie"].lower()


@pytest.mark.parametrize("target", ["//evil.example", "https://evil.example", "/\\evil", "x"])
def test_coming_in_leads_nowhere_else(home: Path, target: str) -> None:
    fields = {"token": a_link(home), "next": target}
    answer = browser(home, role=None).post("/login", data=fields, headers=HERE)
    assert answer.headers["location"] == "/"


def test_a_link_ends_after_a_day_and_a_session_that_is_not_used(home: Path, clock: Clock) -> None:
    secret = a_link(home)
    clock.ns += int(LINK_SECONDS + 1) * SECOND
    assert enter(browser(home, role=None, now_ns=clock), secret) == 403
    client = browser(home, now_ns=clock)
    for _ in range(3):
        clock.ns += int(IDLE_SECONDS * 0.9) * SECOND
        assert client.get("/").status_code == 200
    clock.ns += int(IDLE_SECONDS + 1) * SECOND
    assert client.get("/").status_code == 303


def test_a_session_outlives_the_dashboard_and_ends_when_somebody_leaves(home: Path) -> None:
    client = browser(home)
    again = browser(home, role=None)
    again.cookies = client.cookies
    assert again.get("/").status_code == 200
    assert again.post("/logout", headers=HERE).status_code == 303
    assert client.get("/").status_code == 303


def test_after_wrong_secrets_none_is_looked_at_for_a_minute(home: Path, clock: Clock) -> None:
    client = browser(home, role=None, now_ns=clock)
    for _ in range(FAILURES):
        assert enter(client, "wrong") == 403
    secret = a_link(home)
    assert enter(client, secret) == 429
    assert client.get("/", headers={"authorization": "Bearer x"}).status_code == 429
    clock.ns += 61 * SECOND
    assert enter(client, secret) == 303


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:1"},
        {"sec-fetch-site": "cross-site", "origin": ADDRESS},
        {"sec-fetch-site": "same-site"},
    ],
)
def test_a_page_from_elsewhere_changes_nothing(home: Path, headers: dict[str, str]) -> None:
    client = browser(home)
    answer = client.post("/logout", headers=headers)
    assert answer.status_code == 403
    assert "from elsewhere" in answer.text
    assert client.get("/").status_code == 200


@pytest.mark.parametrize("headers", [HERE, {"sec-fetch-site": "same-origin"}])
def test_a_page_of_the_dashboard_may(home: Path, headers: dict[str, str]) -> None:
    assert browser(home).post("/logout", headers=headers).status_code == 303


def run(*arguments: str) -> str:
    done = CliRunner().invoke(app, list(arguments), catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output.strip()


def test_a_program_comes_in_by_a_token_which_is_kept_as_a_hash_and_can_be_revoked(
    home: Path,
) -> None:
    at = ("--home", str(home))
    secret = run("token", "grafana", *at)
    client = browser(home, role=None)
    bearer = {"authorization": f"Bearer {secret}"}
    assert client.get("/metrics", headers=bearer).status_code == 200
    path = home / "dashboard-tokens.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert secret not in path.read_text()
    assert "│ grafana │ viewer │" in run("token", "--list", *at)
    run("token", "grafana", "--revoke", *at)
    assert client.get("/metrics", headers=bearer).status_code == 401
    assert run("token", "--list", *at) == "Tokens: none"


def test_a_link_of_the_command_line_lets_in(home: Path) -> None:
    link = run("link", "bo", "--role", "operator", "--url", ADDRESS, "--home", str(home))
    client = browser(home, role=None, now_ns=time.time_ns)
    assert client.get(link).status_code == 200
    assert enter(client, link.partition("token=")[2]) == 303
    assert "bo, operator" in client.get("/").text


@pytest.mark.parametrize("name", ["", "a b", "<script>", "operator:x", "a\n", "x" * 65])
def test_a_name_that_could_not_stand_in_an_entry_is_refused(name: str) -> None:
    with pytest.raises(PersonError):
        Person(name, Role.VIEWER)
