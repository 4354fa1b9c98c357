"""The coordinator's web server of files, over real sockets, with and without TLS."""

from __future__ import annotations

import http.client
import os
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fleetledger.schemas.values import DeviceId, Digest
from fleetledger.transport import alternative_source, file_host, https_source
from fleetledger.transport.alternative_source import HttpsRules, OwnHost
from fleetledger.transport.block_source import BlockSource
from fleetledger.transport.brokers.authority import Authority
from fleetledger.transport.brokers.private_files import write_secret
from fleetledger.transport.errors import ListenError, TlsError
from fleetledger.transport.file_host import FileHost, FileTokens, HostedFiles
from fleetledger.transport.memory import InMemoryBroker
from fleetledger.transport.part_file import PartFile
from fleetledger.transport.tls import TlsFiles
from tests.transport.test_transfer import BLOCK, Fleet, data_of
from tests.transport.worlds import PATIENCE, A, B

DATA = data_of(40 * BLOCK + 17)
SOURCE = BlockSource(DATA, BLOCK)
OFFER = SOURCE.offer
SECONDS = 600


class Clock:
    """A clock that a test turns."""

    now = 1000.0

    def seconds(self) -> float:
        return self.now

    def time_ns(self) -> int:
        return int(self.now * 1e9)

    def time_ms(self) -> int:
        return int(self.now * 1e3)


class Hosted:
    """A host of one file and one blob in memory, which some devices may have."""

    def __init__(self, folder: Path, *, tls: bool) -> None:
        self.folder, self.clock = folder, Clock()
        (folder / "model").write_bytes(DATA)
        self.data: dict[Digest, Path | bytes] = {OFFER.digest: folder / "model"}
        self.allowed = {A}
        certificate, self.tls = None, None
        if tls:
            authority = Authority.of(folder / "ca", "orchard")
            issued = authority.server(["localhost"])
            certificate = folder / "files.pem", folder / "files.key"
            write_secret(certificate[0], issued.certificate)
            write_secret(certificate[1], issued.key)
            write_secret(folder / "ca.pem", authority.certificate)
            self.tls = TlsFiles(ca_file=folder / "ca.pem")
        self.host = FileHost(
            HostedFiles(
                "127.0.0.1",
                0,
                FileTokens(SECONDS, self.clock),
                self.data.get,
                lambda device: device in self.allowed,
                certificate,
            )
        )
        self.host.start()

    @property
    def rules(self) -> HttpsRules:
        return HttpsRules(own=OwnHost("localhost", self.tls))

    def path(self, device: DeviceId = A, digest: Digest = OFFER.digest) -> str:
        return self.host.url(device, digest).partition("/")[2]

    def connection(self) -> http.client.HTTPConnection:
        if self.tls is None:
            return http.client.HTTPConnection("localhost", self.host.port, timeout=PATIENCE)
        return http.client.HTTPSConnection(
            "localhost", self.host.port, timeout=PATIENCE, context=self.tls.context()
        )

    def get(
        self, path: str, method: str = "GET", **headers: str
    ) -> tuple[int, bytes, dict[str, str]]:
        """Ask on a connection of its own."""
        connection = self.connection()
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        found = answer.status, answer.read(), dict(answer.headers)
        connection.close()
        return found

    def raw(self, data: bytes) -> bytes:
        """Send bytes and return all that comes until the end, over plain HTTP."""
        with socket.create_connection(("127.0.0.1", self.host.port), PATIENCE) as asked:
            asked.sendall(data)
            came = b""
            while piece := asked.recv(65536):
                came += piece
        return came


@pytest.fixture(params=[False, True], ids=["plain", "TLS"])
def hosted(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Hosted]:
    made = Hosted(tmp_path, tls=request.param)
    yield made
    made.host.stop()


@pytest.fixture
def plain(tmp_path: Path) -> Iterator[Hosted]:
    made = Hosted(tmp_path, tls=False)
    yield made
    made.host.stop()


@pytest.fixture
def fleet() -> Iterator[Fleet]:
    broker = InMemoryBroker(max_queued=10_000)
    made = Fleet(lambda user: broker.connection(f"{user}.data"))
    yield made
    made.stop()


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.002)


def test_whole_files_and_ranges_come_as_they_are(hosted: Hosted) -> None:
    path = f"/{hosted.path()}"
    assert hosted.get(path)[:2] == (200, DATA)
    status, body, headers = hosted.get(path, Range="bytes=100-199")
    assert (status, body) == (206, DATA[100:200])
    assert headers["Content-Range"] == f"bytes 100-199/{len(DATA)}"
    assert hosted.get(path, Range=f"bytes={len(DATA) - 5}-")[:2] == (206, DATA[-5:])
    assert hosted.get(path, "HEAD")[:2] == (200, b"")
    assert hosted.host.sent >= len(DATA) + 105


def test_one_connection_answers_one_request_after_the_other(hosted: Hosted) -> None:
    connection = hosted.connection()
    for _ in range(3):
        connection.request("GET", f"/{hosted.path()}", headers={"Range": "bytes=0-9"})
        assert connection.getresponse().read() == DATA[:10]
    connection.close()


def test_bytes_in_memory_are_served_like_a_file(hosted: Hosted) -> None:
    hosted.data[OFFER.digest] = DATA
    assert hosted.get(f"/{hosted.path()}", Range="bytes=7-70000")[1] == DATA[7:70001]


def test_a_token_counts_for_its_file_and_device_and_for_a_while(hosted: Hosted) -> None:
    digest, device, expires, mac = hosted.path().split("/")
    other = Digest.of(b"another file")
    hosted.data[other] = b"secret"
    wrong = [
        f"/{other}/{device}/{expires}/{mac}",
        f"/{digest}/{B}/{expires}/{mac}",
        f"/{digest}/{device}/{int(expires) + 600}/{mac}",
        f"/{digest}/{device}/{expires}/{'A' * 22}",
        f"/{digest}/{device}/{expires}/",
        f"/{digest}",
        "/",
    ]
    for path in wrong:
        status, body, _ = hosted.get(path)
        assert (status, body) == (403, b""), path
    assert hosted.get(f"/{hosted.path()}")[0] == 200
    hosted.clock.now = float(expires) - 0.5
    assert hosted.get(f"/{digest}/{device}/{expires}/{mac}")[0] == 200
    hosted.clock.now = float(expires)
    assert hosted.get(f"/{digest}/{device}/{expires}/{mac}")[0] == 403
    assert hosted.get(f"/{hosted.path()}")[0] == 200, "the next message has another one"
    assert hosted.host.refused == len(wrong) + 1


def test_a_device_that_left_the_fleet_gets_nothing(hosted: Hosted) -> None:
    path = f"/{hosted.path()}"
    hosted.allowed.clear()
    assert hosted.get(path)[:2] == (403, b"")


def test_what_is_withdrawn_or_gone_is_not_there(hosted: Hosted) -> None:
    path = f"/{hosted.path()}"
    assert hosted.get(path, Range="bytes=0-0")[0] == 206
    del hosted.data[OFFER.digest]
    assert hosted.get(path)[0] == 404
    hosted.data[OFFER.digest] = hosted.folder / "nothing"
    assert hosted.get(path)[0] == 404


@pytest.mark.parametrize(
    "path",
    ["/../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "//etc/passwd", "/model", "/a/b/c/d"],
)
def test_no_path_leads_out(hosted: Hosted, path: str) -> None:
    assert hosted.get(path)[:2] == (403, b"")
    digest, *rest = hosted.path().split("/")
    assert hosted.get(f"/../{digest}/{'/'.join(rest)}")[0] == 403


def test_requests_that_make_no_sense_are_refused(plain: Hosted) -> None:
    path = f"/{plain.path()}".encode()
    cases = {
        b"GET %s HTTP/1.1\r\nRange: bytes=%d-\r\n\r\n" % (path, len(DATA)): b"416",
        b"GET %s HTTP/1.1\r\nRange: bytes=9-3\r\n\r\n" % path: b"416",
        b"GET %s HTTP/1.1\r\nRange: bytes=0-1,5-6\r\n\r\n" % path: b"416",
        b"POST %s HTTP/1.1\r\n\r\n" % path: b"405",
        b"GET %s HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello" % path: b"400",
        b"GET %s HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n" % path: b"400",
        b"GET %s HTTP/2.0\r\n\r\n" % path: b"400",
        b"GET %s\r\n\r\n" % path: b"400",
        b"\x16\x03\x01\x02\xff\r\n\r\n": b"400",
        b"GET %s HTTP/1.1\r\nX: %s\r\n\r\n" % (path, b"y" * 8192): b"431",
    }
    for request, status in cases.items():
        assert plain.raw(request).split(b" ", 2)[1] == status, request[:80]
    assert plain.get(f"/{plain.path()}")[0] == 200, "it goes on"


def test_who_sends_half_a_request_is_dropped(
    plain: Hosted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_host, "HEAD_SECONDS", 0.05)
    assert plain.raw(b"GET /") == b""


def test_who_does_not_read_is_dropped(plain: Hosted, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_host, "PIECE_SECONDS", 0.05)
    size = 64 << 20
    with (plain.folder / "model").open("r+b") as file:
        file.truncate(size)
    slow = socket.create_connection(("127.0.0.1", plain.host.port), PATIENCE)
    slow.sendall(f"GET /{plain.path()} HTTP/1.1\r\n\r\n".encode())
    until(lambda: plain.host.sent > 0)
    until(lambda: not plain.host._visits)
    assert plain.host.sent < size
    slow.close()


def test_silent_connections_make_room_for_devices(
    plain: Hosted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_host, "MOST_CONNECTIONS", 3)
    address = ("127.0.0.1", plain.host.port)
    silent = [socket.create_connection(address, PATIENCE) for _ in range(6)]
    for _ in range(3):
        assert plain.get(f"/{plain.path()}")[:2] == (200, DATA)
    assert silent[0].recv(1) == b"", "the oldest was dropped"
    for one in silent:
        one.close()


def test_a_device_has_a_few_connections_and_no_more(plain: Hosted) -> None:
    kept = []
    for _ in range(file_host.MOST_OF_DEVICE):
        kept.append(plain.connection())
        kept[-1].request("GET", f"/{plain.path()}", headers={"Range": "bytes=0-0"})
        assert kept[-1].getresponse().read() == DATA[:1]
    assert plain.get(f"/{plain.path()}")[0] == 503
    kept.pop().close()
    until(lambda: plain.host._of_device[A] < file_host.MOST_OF_DEVICE)
    assert plain.get(f"/{plain.path()}")[0] == 200
    for connection in kept:
        connection.close()


def test_a_port_that_is_taken_and_a_certificate_that_is_none_are_named(tmp_path: Path) -> None:
    made = Hosted(tmp_path, tls=False)
    tokens = FileTokens(SECONDS)
    what = HostedFiles("127.0.0.1", made.host.port, tokens, made.data.get, lambda _: True)
    with pytest.raises(ListenError, match=r"files\.port: \d+: cannot listen at 127\.0\.0\.1"):
        FileHost(what).start()
    made.host.stop()
    (tmp_path / "none.pem").write_text("none", encoding="ascii")
    pair = tmp_path / "none.pem", tmp_path / "none.pem"
    what = HostedFiles("127.0.0.1", 0, tokens, made.data.get, lambda _: True, pair)
    with pytest.raises(TlsError, match=r"files\.certificate_file: .*none\.pem"):
        FileHost(what).start()


def test_a_renewed_certificate_needs_no_restart(tmp_path: Path) -> None:
    made = Hosted(tmp_path, tls=True)
    other = Authority.of(tmp_path / "other", "orchard")
    issued = other.server(["localhost"])
    write_secret(tmp_path / "files.pem", issued.certificate)
    write_secret(tmp_path / "files.key", issued.key)
    os.utime(tmp_path / "files.pem", ns=(1, 1))
    with pytest.raises(ssl.SSLCertVerificationError):
        made.get(f"/{made.path()}")
    write_secret(tmp_path / "ca.pem", other.certificate)
    assert made.get(f"/{made.path()}")[0] == 200
    made.host.stop()


def fetched(fleet: Fleet, hosted: Hosted, folder: Path, rules: HttpsRules) -> tuple[int, int]:
    """Fetch the file, which must come whole; return bytes by the broker, and by HTTP."""
    device = fleet.exchange(A)
    device.https = rules
    return again(device, hosted, folder / "model.new")


def again(device: object, hosted: Hosted, target: Path) -> tuple[int, int]:
    before = device.connection.meter.total().bytes_down, device.traffic().bytes_down  # type: ignore[attr-defined]
    url = hosted.host.url(A, OFFER.digest)
    future = device.fetch(OFFER, target, A, seconds=PATIENCE, url=url)  # type: ignore[attr-defined]
    assert future.result(PATIENCE).read_bytes() == DATA
    broker = device.connection.meter.total().bytes_down - before[0]  # type: ignore[attr-defined]
    return broker, device.traffic().bytes_down - before[1] - broker  # type: ignore[attr-defined]


def test_a_device_fetches_from_the_coordinator_and_only_lists_by_the_broker(
    fleet: Fleet, hosted: Hosted, tmp_path: Path
) -> None:
    fleet.exchange().serve(SOURCE)
    by_broker, by_http = fetched(fleet, hosted, tmp_path, hosted.rules)
    assert by_broker < 2 * BLOCK
    assert by_http == len(DATA)
    assert hosted.host.sent == len(DATA)


def test_a_coordinator_that_is_not_reached_is_said_once_and_has_a_rest(
    fleet: Fleet,
    hosted: Hosted,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(https_source, "_PAUSE_SECONDS", 0.01)
    fleet.exchange().serve(SOURCE)
    device = fleet.exchange(A)
    device.https = hosted.rules
    port, hosted.host.port = hosted.host.port, 1
    with caplog.at_level("INFO", "transport.blocks"):
        assert again(device, hosted, tmp_path / "one") == (pytest.approx(len(DATA), rel=0.2), 0)
        hosted.host.port = port
        assert again(device, hosted, tmp_path / "two")[1] == 0, "it rests"
        monkeypatch.setattr(alternative_source, "REST_SECONDS", 0.0)
        device._reach._again = 0.0
        hosted.host.port = 1
        assert again(device, hosted, tmp_path / "three")[1] == 0
        hosted.host.port = port
        assert again(device, hosted, tmp_path / "four")[1] == len(DATA)
    said = [r.getMessage() for r in caplog.records if "localhost" in r.getMessage()]
    assert len(said) == 1, said
    assert "is not reached" in said[0]
    assert OFFER.digest not in said[0]


@pytest.mark.parametrize("fault", ["token", "withdrawn", "other CA"])
def test_where_the_coordinator_refuses_the_broker_brings_it(
    fleet: Fleet, hosted: Hosted, tmp_path: Path, fault: str
) -> None:
    fleet.exchange().serve(SOURCE)
    rules = hosted.rules
    if fault == "token":
        hosted.allowed.clear()
    elif fault == "withdrawn":
        hosted.data.clear()
    else:
        write_secret(tmp_path / "x.pem", Authority.of(tmp_path / "x", "x").certificate)
        rules = HttpsRules(own=OwnHost("localhost", TlsFiles(ca_file=tmp_path / "x.pem")))
    assert fetched(fleet, hosted, tmp_path, rules)[1] == 0


def test_a_transfer_that_broke_goes_on_by_a_range(
    fleet: Fleet, hosted: Hosted, tmp_path: Path
) -> None:
    fleet.exchange().serve(SOURCE)
    part = PartFile(OFFER, tmp_path / "model.new")
    for index in range(30):
        part.write(index, DATA[index * BLOCK : (index + 1) * BLOCK])
    part.close()
    assert fetched(fleet, hosted, tmp_path, hosted.rules)[1] == len(DATA) - 30 * BLOCK


def test_ports_are_of_the_coordinator_alone(fleet: Fleet, hosted: Hosted, tmp_path: Path) -> None:
    fleet.exchange().serve(SOURCE)
    assert fetched(fleet, hosted, tmp_path, HttpsRules())[1] == 0
