"""What needs a person is posted to a real web server, and posted again until it is taken."""

from __future__ import annotations

import json
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from fleetledger.coordinator.live.file import LiveFile
from fleetledger.coordinator.live.snapshot import CoordinatorNow, LiveSnapshot
from fleetledger.coordinator.program.engine import carry_out_waiting
from fleetledger.coordinator.program.webhook import FILE_NAME, MOST_TOLD, Told, Webhook, body
from fleetledger.coordinator.reports.absence import PATIENCE_NS
from fleetledger.coordinator.reports.answers import Need, Urgency
from fleetledger.coordinator.settings import WebhookSection
from fleetledger.transport.brokers.authority import Authority
from tests.coordinator.shell_harness import FLEET, write_home
from tests.device_agent.scripted import eventually


class Hook(ThreadingHTTPServer):
    """A web server that keeps what it took; the first `refusals` posts get status 503."""

    def __init__(self, refusals: int, tls: ssl.SSLContext | None = None) -> None:
        super().__init__(("127.0.0.1", 0), Posted)
        self.scheme = "http" if tls is None else "https"
        if tls is not None:
            self.socket = tls.wrap_socket(self.socket, server_side=True)
        self.refusals = refusals
        self.refused = 0
        self.taken: list[dict[str, Any]] = []

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.server_address[1]}/secret?a=b"


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
def hook(refusals: int = 0, tls: ssl.SSLContext | None = None) -> Iterator[Hook]:
    with Hook(refusals, tls) as server:
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
def posting(home: Path, server: Hook, ca_file: Path | None = None) -> Iterator[None]:
    webhook = Webhook(home, FLEET, WebhookSection(url=server.url, seconds=1, ca_file=ca_file))
    webhook.start()
    try:
        yield
    finally:
        webhook.stop()


def need(key: str, *devices: str, sentence: str = "?", urgency: Urgency = "today") -> Need:
    return Need(key=key, urgency=urgency, sentence=sentence, devices=devices)


def by_key(*needs: Need) -> dict[str, Need]:
    return {each.key: each for each in needs}


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
    monkeypatch.setattr("fleetledger.coordinator.program.webhook._LONGEST_PAUSE", 0.05)
    caplog.set_level("INFO")
    with hook(refusals=3) as server, posting(home, server):
        eventually(lambda: "takes posts again" in caplog.text)
        assert len(server.taken) == 1
    assert server.refused == 3
    assert caplog.text.count("does not take a post") == 1
    assert "it answered 503" in caplog.text
    assert "secret" not in caplog.text


def test_what_was_told_is_told_no_more_after_a_restart(home: Path) -> None:
    with hook() as server, hook() as another:
        for address, posts in ((server, 1), (server, 1), (another, 1)):
            Webhook(home, FLEET, WebhookSection(url=address.url)).poll()
            assert len(address.taken) == posts
        assert another.url not in (home / FILE_NAME).read_text()


def test_what_was_open_is_not_over_before_it_is_known_who_is_there(home: Path) -> None:
    away = need("absent", "camera-3")
    with hook() as server:
        Told.read(home, server.url).model_copy(update={"open": by_key(away)}).write(home)
        with closing(LiveFile(home)) as file:
            started_ns = time.time_ns()
            now = CoordinatorNow(
                fleet=FLEET,
                version="0",
                pid=1,
                started_ns=started_ns,
                written_ns=started_ns,
                connected=True,
            )
            file.write(LiveSnapshot(coordinator=now))
            webhook = Webhook(home, FLEET, WebhookSection(url=server.url))
            webhook.poll()
            assert not server.taken
            earlier = now.model_copy(update={"started_ns": started_ns - PATIENCE_NS})
            file.write(LiveSnapshot(coordinator=earlier))
            webhook.poll()
        assert [each["key"] for each in server.taken[0]["closed"]] == ["absent"]


def test_only_what_began_and_ended_is_told() -> None:
    away, hot = need("absent", "camera-3", sentence="For 3 days."), need("hot")
    told = Told()
    assert told.difference(by_key(away)) == ([away], [])
    told = Told(open=by_key(away))
    longer = need("absent", "camera-3", sentence="For 4 days.")
    assert told.difference(by_key(longer)) == ([], [])
    assert told.difference(by_key(hot)) == ([hot], [away])


def test_a_need_is_told_again_once_it_is_more() -> None:
    told = Told(open=by_key(need("absent", "camera-1", "camera-2")))
    assert told.difference(by_key(need("absent", "camera-2"))) == ([], [])
    more = need("absent", "camera-2", "camera-3")
    assert told.difference(by_key(more)) == ([more], [])
    urgent = need("absent", "camera-2", urgency="now")
    assert told.difference(by_key(urgent)) == ([urgent], [])


def serving_tls(certificate: Path, key: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return context


def signed_by_the_fleets_authority(folder: Path) -> tuple[ssl.SSLContext, Path]:
    authority = Authority.of(folder / "ca", FLEET)
    issued = authority.server(["127.0.0.1"])
    for name, text in (("host.pem", issued.certificate), ("host.key", issued.key)):
        (folder / name).write_text(text)
    return serving_tls(folder / "host.pem", folder / "host.key"), Path("ca/ca.pem")


def signed_by_itself(folder: Path) -> tuple[ssl.SSLContext, Path]:
    """As people make it by hand."""
    line = "openssl req -x509 -newkey rsa:2048 -nodes -keyout own.key -out own.pem -days 9 -subj"
    words = (*line.split(), "/CN=hook", "-addext", "subjectAltName=IP:127.0.0.1")
    subprocess.run(words, cwd=folder, check=True, capture_output=True)
    return serving_tls(folder / "own.pem", folder / "own.key"), Path("own.pem")


@pytest.mark.parametrize("made", [signed_by_the_fleets_authority, signed_by_itself])
def test_posts_go_by_https_to_who_shows_a_certificate_that_is_believed(
    home: Path,
    caplog: pytest.LogCaptureFixture,
    made: Callable[[Path], tuple[ssl.SSLContext, Path]],
) -> None:
    context, ca_file = made(home)
    with hook(tls=context) as server:
        with posting(home, server):
            eventually(lambda: "does not take a post" in caplog.text)
        assert "the certificate of 127.0.0.1 is not believed" in caplog.text
        assert "as webhook.ca_file" in caplog.text
        assert not server.taken
        with posting(home, server, ca_file):
            eventually(lambda: len(server.taken) == 1)


def test_a_post_names_so_many_and_counts_the_rest() -> None:
    many = [need(name, name) for name in map(str, range(MOST_TOLD + 2))]
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
