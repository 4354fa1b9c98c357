"""What needs a person is posted to a real web server, and posted again until it is taken."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from coordinator.reading.answers import Need
from coordinator.serving.engine import carry_out_waiting
from coordinator.serving.webhook import MOST_TOLD, Told, Webhook, body, key_of
from coordinator.settings import WebhookSection
from tests.coordinator.shell_harness import FLEET, write_home
from tests.device_agent.scripted import eventually


class Hook(ThreadingHTTPServer):
    """A web server that keeps what it took; the first `refusals` posts get status 503."""

    def __init__(self, refusals: int) -> None:
        super().__init__(("127.0.0.1", 0), Posted)
        self.refusals = refusals
        self.refused = 0
        self.taken: list[dict[str, Any]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/secret?a=b"


class Posted(BaseHTTPRequestHandler):
    server: Hook

    def do_POST(self) -> None:
        content = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        assert self.path == "/secret?a=b"
        if self.server.refused < self.server.refusals:
            self.server.refused += 1
            self.send_response(503)
        else:
            self.server.taken.append(content)
            self.send_response(204)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing to the tests' terminal."""


@contextmanager
def hook(refusals: int = 0) -> Iterator[Hook]:
    with Hook(refusals) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def home(tmp_path: Path) -> Path:
    write_home(tmp_path)
    assert carry_out_waiting(tmp_path)  # makes the ledger
    return tmp_path


@contextmanager
def posting(home: Path, server: Hook) -> Iterator[None]:
    webhook = Webhook(home, FLEET, WebhookSection(url=server.url, seconds=1))
    webhook.start()
    try:
        yield
    finally:
        webhook.stop()


def need(sentence: str, *devices: str) -> Need:
    return Need(urgency="now", sentence=sentence, devices=devices, command="fleetledger x")


def test_what_is_open_is_posted_once(home: Path) -> None:
    with hook() as server, posting(home, server):
        eventually(lambda: len(server.taken) == 1)
    (post,) = server.taken
    assert post["fleet"] == FLEET
    assert [item["urgency"] for item in post["opened"]] == ["now"]
    assert post["opened"][0]["sentence"].startswith("No coordinator runs")
    assert post["closed"] == []
    assert "now: No coordinator runs" in post["text"]


def test_a_post_that_is_refused_is_tried_again_and_logged_once_without_its_path(
    home: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("coordinator.serving.webhook._LONGEST_PAUSE", 0.05)
    caplog.set_level("INFO")
    with hook(refusals=3) as server, posting(home, server):
        eventually(lambda: "takes posts again" in caplog.text)
        assert len(server.taken) == 1
    assert server.refused == 3
    assert caplog.text.count("does not take a post") == 1
    assert "it answered 503" in caplog.text
    assert "secret" not in caplog.text


def test_only_what_began_and_ended_is_told() -> None:
    told, away, hot = Told(), need("camera-3 is away for 3 days.", "camera-3"), need("It is hot.")
    began, ended = told.difference([away])
    assert list(began.values()) == [away]
    assert not ended
    told.take(began, ended)
    longer = need("camera-3 is away for 4 days.", "camera-3")
    assert told.difference([longer]) == ({}, {})
    began, ended = told.difference([hot])
    assert (list(began.values()), list(ended.values())) == ([hot], [away])
    told.take(began, ended)
    assert told.open == {key_of(hot): hot}


def test_another_device_is_another_need() -> None:
    assert key_of(need("camera-1 is hot.", "camera-1")) != key_of(
        need("camera-2 is hot.", "camera-2")
    )


def test_a_post_names_so_many_and_counts_the_rest() -> None:
    many = [need(f"Of {name}.", name) for name in map(str, range(MOST_TOLD + 2))]
    content = body("orchard", 0, many, many[:1])
    assert (len(content["opened"]), len(content["closed"]), content["not_listed"]) == (50, 1, 2)


@pytest.mark.parametrize(
    "url",
    [
        "http://hooks.example/x",
        "https://",
        "https://me:secret@hooks.example/x",
        "ftp://127.0.0.1/",
        "https://hooks.example/a b",
        "https://hooks.example:port/",
        "http://127.0.0.1.example/",
    ],
)
def test_an_address_that_others_could_read_is_refused(url: str) -> None:
    with pytest.raises(ValidationError, match="url"):
        WebhookSection(url=url)
