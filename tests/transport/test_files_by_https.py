"""Files come by HTTPS from a real server; whatever that does, they come whole, or by the broker."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from fleetledger.schemas.offers import Offer
from fleetledger.transport import block_receiver, https_source
from fleetledger.transport.alternative_source import HttpsRules
from fleetledger.transport.block_receiver import BlockReceiver
from fleetledger.transport.block_source import BlockSource
from fleetledger.transport.errors import BlockError, TlsError
from fleetledger.transport.memory import InMemoryBroker
from fleetledger.transport.part_file import PartFile
from fleetledger.transport.transfer import BlockExchange
from tests.transport.test_transfer import BLOCK, Fleet, data_of
from tests.transport.web import WebHost
from tests.transport.worlds import PATIENCE, A

DATA = data_of(40 * BLOCK + 17)
SOURCE = BlockSource(DATA, BLOCK)
OFFER = SOURCE.offer
FILE = "file?token=secret"
HERE = frozenset({"localhost"})


def start_host(folder: Path, data: bytes = DATA) -> WebHost:
    (folder / "file").write_bytes(data)
    return WebHost(folder / "file", folder / "ca")


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebHost]:
    made = start_host(tmp_path_factory.mktemp("web"))
    yield made
    made.end()


@pytest.fixture
def fleet() -> Iterator[Fleet]:
    broker = InMemoryBroker(max_queued=10_000)
    made = Fleet(lambda user: broker.connection(f"{user}.data"))
    yield made
    made.stop()


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(block_receiver, "ELSEWHERE_SECONDS", 1.0)
    monkeypatch.setattr(https_source, "_PAUSE_SECONDS", 0.01)


def taking(fleet: Fleet, rules: HttpsRules | None) -> BlockExchange:
    """Return a device's exchange, beside a coordinator that serves the file."""
    fleet.exchange().serve(SOURCE)
    device = fleet.exchange(A)
    device.https = rules
    return device


def fetched(device: BlockExchange, folder: Path, url: str, offer: Offer = OFFER) -> int:
    """Fetch the file, which must come whole; return how many bytes of it came by the broker."""
    before = device.connection.meter.total().bytes_down
    future = device.fetch(offer, folder / "model", A, seconds=PATIENCE, url=url)
    assert future.result(PATIENCE).read_bytes() == DATA
    return device.connection.meter.total().bytes_down - before


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.002)


@pytest.mark.parametrize("way", ["ranges", "whole", "hop", "breaks"])
def test_a_file_comes_from_the_server_and_only_its_list_by_the_broker(
    fleet: Fleet, host: WebHost, tmp_path: Path, way: str
) -> None:
    device = taking(fleet, HttpsRules(HERE, host.ca_file))
    assert fetched(device, tmp_path, host.url(f"{way}/{FILE}")) < 2 * BLOCK
    assert device.traffic().bytes_down >= len(DATA)


WAYS_TO_FAIL = (
    "wrong",
    "longer",
    "missing",
    "trickle",
    "encoded",
    "shifted",
    "loop",
    "away/example.invalid",
    "plain",
    "nonsense",
)


@pytest.mark.parametrize("way", WAYS_TO_FAIL)
def test_whatever_a_server_does_the_file_comes_by_the_broker(
    fleet: Fleet, host: WebHost, tmp_path: Path, way: str
) -> None:
    device = taking(fleet, HttpsRules(HERE, host.ca_file))
    assert fetched(device, tmp_path, host.url(f"{way}/{FILE}")) > len(DATA)


def test_a_server_that_is_killed_in_mid_transfer_leaves_the_rest_to_the_broker(
    fleet: Fleet, tmp_path: Path
) -> None:
    host = start_host(tmp_path)
    device = taking(fleet, HttpsRules(HERE, host.ca_file))
    future = device.fetch(
        OFFER, tmp_path / "model", A, seconds=PATIENCE, url=host.url(f"slow/{FILE}")
    )
    until(lambda: device.traffic().bytes_down > 10 * BLOCK)
    assert not future.done()
    host.end()
    assert future.result(PATIENCE).read_bytes() == DATA
    assert BLOCK < device.connection.meter.total().bytes_down < len(DATA) - 5 * BLOCK


def test_a_file_that_was_begun_is_resumed_from_its_part_file(
    fleet: Fleet, host: WebHost, tmp_path: Path
) -> None:
    part = PartFile(OFFER, tmp_path / "model")
    for index in (*range(30), 35):
        part.write(index, DATA[index * BLOCK : (index + 1) * BLOCK])
    part.write(7, b"torn" * (BLOCK // 4))
    part.close()
    device = taking(fleet, HttpsRules(HERE, host.ca_file))
    assert fetched(device, tmp_path, host.url(f"ranges/{FILE}")) < 2 * BLOCK
    came = device.traffic().bytes_down - device.connection.meter.total().bytes_down
    # The torn one, and all behind what was there; the gap of one block comes with it.
    assert came == BLOCK + len(DATA) - 30 * BLOCK


class Scripted:
    """Brings a block whenever it is asked, up to as many as it is told to."""

    place, ended, received, believed = "https://scripted", None, 0, False

    def __init__(self, missing: Sequence[int]) -> None:
        self.left, self.allowed, self.stopped = list(missing), 0, False

    def taken(self) -> Iterator[tuple[int, bytes]]:
        count, self.allowed = self.allowed, 0
        for index in self.left[:count]:
            yield index, DATA[index * BLOCK : (index + 1) * BLOCK]
        del self.left[:count]

    def stop(self) -> None:
        self.stopped = True


@pytest.mark.parametrize(("pace", "enough"), [(5, True), (1, False)], ids=["quick", "slow"])
def test_a_way_that_would_not_be_done_in_time_is_left_at_half_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pace: int, *, enough: bool
) -> None:
    monkeypatch.setattr(block_receiver, "ELSEWHERE_SECONDS", 20.0)
    opened: list[Scripted] = []

    def open_it(_: Offer, missing: Sequence[int]) -> Scripted:
        opened.append(Scripted(missing))
        return opened[-1]

    receiver = BlockReceiver(OFFER, tmp_path / "model", now=0.0, deadline=100.0, elsewhere=open_it)
    for request in receiver.requests(0.0):
        for label, block in SOURCE.answer(request):
            receiver.receive(label, block, 0.0)
    for now in range(0, 50, 10):
        assert receiver.requests(float(now)) == [], "the peer is asked for nothing meanwhile"
        opened[0].allowed = pace
    (source,) = opened
    assert bool(receiver.requests(50.0)) is not enough
    assert source.stopped is not enough
    assert receiver.counts.elsewhere == 5 * pace


@pytest.mark.parametrize(
    ("rules", "url"),
    [
        (None, "https://localhost:{port}/ranges/file"),
        (HttpsRules(frozenset({"files.example.org"})), "https://localhost:{port}/ranges/file"),
        (HttpsRules(HERE), "https://localhost:{port}/ranges/file"),
        (HttpsRules(HERE), "https://user:password@localhost:{port}/ranges/file"),
        (HttpsRules(HERE), "https://localhost:1/ranges/file"),
        (HttpsRules(HERE), "https://localhost:99999999/ranges/file"),
        (HttpsRules(HERE, Path("/nothing/ca.pem")), "https://localhost:{port}/ranges/file"),
    ],
    ids=["off", "another host", "unknown CA", "password", "closed port", "no port", "no CA file"],
)
def test_where_https_may_not_or_cannot_be_the_broker_brings_it(
    fleet: Fleet, host: WebHost, tmp_path: Path, rules: HttpsRules | None, url: str
) -> None:
    device = taking(fleet, rules)
    assert fetched(device, tmp_path, url.format(port=host.port)) > len(DATA)


def test_the_end_of_a_fetch_ends_its_connection(
    fleet: Fleet, host: WebHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(block_receiver, "ELSEWHERE_SECONDS", PATIENCE)
    device = taking(fleet, HttpsRules(HERE, host.ca_file))
    future = device.fetch(
        OFFER, tmp_path / "model", A, seconds=PATIENCE, url=host.url(f"trickle/{FILE}")
    )
    until(lambda: any(source.received for source in device._https_sources))
    assert not future.done()
    device.cancel(OFFER.digest)
    with pytest.raises(BlockError, match="not needed any more"):
        future.result(PATIENCE)
    until(lambda: device._https_sources[0].ended is not None)
    assert (tmp_path / "model.part").exists()


def test_what_is_logged_of_a_server_names_its_host_and_no_secret(
    fleet: Fleet, host: WebHost, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    device = taking(fleet, HttpsRules(HERE, host.ca_file))
    with caplog.at_level("INFO", "transport.blocks"):
        fetched(device, tmp_path, host.url(f"missing/{FILE}"))
    said = " ".join(record.getMessage() for record in caplog.records)
    assert "https://localhost brings it no further" in said
    assert "answers 404" in said
    assert "secret" not in said


def test_certificates_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("no certificate", encoding="utf-8")
    for file in (tmp_path / "ca.pem", tmp_path / "nothing.pem"):
        with pytest.raises(TlsError, match=r"files\.ca_file.*pem"):
            HttpsRules(ca_file=file).context()


@pytest.mark.parametrize(
    "host",
    [
        "localhost", "127.0.0.1", "127.1", "2130706433", "[::1]", "[::ffff:127.0.0.1]", "10.0.0.7",
        "192.168.1.1", "169.254.169.254", "0.0.0.0", "[fe80::1]", "[fd00::1]", "100.64.0.1",
    ],
)  # fmt: skip
def test_a_url_leads_into_no_private_network_unless_its_owner_says_so(host: str) -> None:
    rules = HttpsRules()
    name = rules.allowed(f"https://{host}/file").hostname
    assert name is not None
    with pytest.raises(BlockError, match="is in a private network or on this device"):
        rules.connect((name, 9), 1.0)


def test_a_host_that_is_named_may_be_anywhere() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        HttpsRules(frozenset({"127.0.0.1"})).connect(("127.0.0.1", port), PATIENCE).close()


def test_a_name_is_judged_by_what_it_resolves_to(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 443))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
    with pytest.raises(BlockError, match=r"files\.example\.org is in a private network"):
        HttpsRules().connect(("files.example.org", 443), 1.0)
