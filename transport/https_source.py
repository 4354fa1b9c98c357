"""Reading the blocks of a file from a web server or the coordinator, in a thread of its own.

A server may be anybody's and do anything, so nothing is believed and everything bounded: HTTPS
alone, on hosts that the owner allows; so many redirects; the length that was asked for, and no
other; so long for an answer. The coordinator is asked where the device knows it, by the way that
the broker is: with TLS, or without; it redirects nobody. What comes goes to the transfer block by
block, which checks each and watches the time: a server that trickles is left by it, and the
connection closed from outside.

Missing blocks that follow each other are asked for by one request with a range. A server that knows
no ranges sends the whole file, of which the missing blocks are taken. After a break it goes on, as
long as each connection brings something.
"""

from __future__ import annotations

import contextlib
import http.client
import queue
import re
import socket
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from urllib.parse import SplitResult, urljoin, urlsplit

from fleetledger.schemas.offers import Offer
from fleetledger.transport.alternative_source import HttpsRules, OwnHostReach
from fleetledger.transport.errors import BlockError

ANSWER_SECONDS = 10.0
"""For a connection, and for anything to come on it."""
OWN_SECONDS = 3.0
"""For a connection to the coordinator, once: the broker waits beside it."""
_REDIRECTS = 3
_REDIRECTED = frozenset({301, 302, 303, 307, 308})
_FRUITLESS = 2
"""Connections in a row that bring no block, after which no other is tried."""
_PAUSE_SECONDS = 0.5
_GAP_BLOCKS = 16
"""Blocks from one that is missing to the next, up to which both come by one request."""
_READY_BLOCKS = 8
"""Blocks that wait to be taken; more are not read."""
_LOOK_SECONDS = 0.2
_RANGE = re.compile(r"bytes (\d{1,12})-(\d{1,12})/(\d{1,12})")


class HttpsSource:
    """Fetches `missing` blocks of an offer from `url`; `came` is called when there is news."""

    def __init__(
        self,
        url: str,
        offer: Offer,
        missing: Sequence[int],
        rules: HttpsRules,
        came: Callable[[], None],
        reach: OwnHostReach | None = None,
    ) -> None:
        """Begin; raises `BlockError` for a URL that may not be asked, and `TlsError`."""
        self.received = 0
        """Bytes of the file that came."""
        own = rules.own if url.startswith(":") else None
        self.believed = own is not None
        self._own = own
        self._url = url if own is None else own.url(url)
        self._parts = rules.allowed(url) if own is None else urlsplit(self._url)
        self._offer = offer
        self._missing = deque(missing)
        self._rules = rules
        self._secure = rules.context() if own is None else own.context()
        self._came = came
        self._ready: queue.Queue[tuple[int, bytes]] = queue.Queue(_READY_BLOCKS)
        self._stopped = threading.Event()
        self._socket: socket.socket | None = None
        self._reason: str | None = None
        self._reach = reach
        threading.Thread(target=self._work, name="https", daemon=True).start()

    @property
    def place(self) -> str:
        """The host: a path may be secret for as long as it counts."""
        return f"{self._parts.scheme}://{self._parts.hostname}"

    @property
    def ended(self) -> str | None:
        """Why nothing more comes, empty where that is said already; None while something may."""
        return self._reason

    def taken(self) -> Iterator[tuple[int, bytes]]:
        """Yield index and bytes of the blocks that have come since."""
        with contextlib.suppress(queue.Empty):
            while True:
                yield self._ready.get_nowait()

    def stop(self) -> None:
        """End, whatever the other side is doing."""
        self._stopped.set()
        connected = self._socket
        if connected is not None:
            with contextlib.suppress(OSError):  # it may have closed it first
                # Under TLS, whose own way would take the session from under the thread that reads.
                socket.socket.shutdown(connected, socket.SHUT_RDWR)

    def _work(self) -> None:
        reason = "its thread ended by an error"
        try:
            self._fetch_all()
            reason = "all has come"
        except BlockError as error:
            reason = str(error)
        except ValueError as error:  # names of hosts and numbers that make no sense
            reason = f"{self.place}: {error}"
        finally:
            self._reason = reason
            self._came()

    def _fetch_all(self) -> None:
        fruitless = 0
        while self._missing:
            before = len(self._missing)
            try:
                self._fetch_some()
            except (OSError, http.client.HTTPException) as error:
                self._check_running()
                fruitless = 0 if len(self._missing) < before else fruitless + 1
                if fruitless >= _FRUITLESS:
                    raise BlockError(f"{self.place}: {error or repr(error)}") from error
                self._stopped.wait(_PAUSE_SECONDS)

    def _fetch_some(self) -> None:
        """Ask for ranges, on one connection after the other where there are redirects."""
        url, redirects = self._url, 0
        while self._missing:
            redirected = self._ask(url)
            if redirected is None:
                continue
            redirects += 1
            if redirects > _REDIRECTS:
                raise BlockError(f"{self.place}: more than {_REDIRECTS} redirects")
            url = redirected

    def _ask(self, url: str) -> str | None:
        """Make one request; return where it is redirected to, if it is."""
        first, last = self._run()
        parts = self._parts if self._own is not None else self._rules.allowed(url)
        connection = self._connected(parts)
        try:
            self._socket = connection.sock
            self._check_running()
            target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
            wanted = self._bytes_of(first, last)
            headers = {"Range": f"bytes={wanted[0]}-{wanted[1]}", "Accept-Encoding": "identity"}
            connection.request("GET", target, headers={"User-Agent": "fleetledger", **headers})
            answer = connection.getresponse()
            if answer.status in _REDIRECTED and self._own is None:
                return urljoin(url, answer.headers.get("Location", ""))
            if self._is_whole(answer, wanted):
                first, last = 0, self._missing[-1]
            self._read(answer, first, last)
        finally:
            self._socket = None
            connection.close()
        return None

    def _connected(self, parts: SplitResult) -> http.client.HTTPConnection:
        host, seconds = parts.hostname or "", ANSWER_SECONDS if self._own is None else OWN_SECONDS
        if self._secure is None:
            connection = http.client.HTTPConnection(host, parts.port, timeout=seconds)
        else:
            connection = http.client.HTTPSConnection(
                host, parts.port, timeout=seconds, context=self._secure
            )
        if self._own is None:
            # The one place where the library takes another way to connect; the name is checked.
            connection._create_connection = self._rules.connect  # type: ignore[attr-defined]
        try:
            connection.connect()
        except OSError as error:
            connection.close()
            if self._own is not None and self._reach is not None:
                self._reach.failed(self.place, str(error) or repr(error))
                raise BlockError("") from error
            raise
        if self._reach is not None:
            self._reach.reached()
        connection.sock.settimeout(ANSWER_SECONDS)
        return connection

    def _run(self) -> tuple[int, int]:
        """Return the first and last of the missing blocks that are asked for next.

        Small gaps are read as well: another request takes longer.
        """
        first = last = self._missing[0]
        for index in self._missing:
            if index > last + _GAP_BLOCKS:
                break
            last = index
        return first, last

    def _bytes_of(self, first: int, last: int) -> tuple[int, int]:
        """Return the first and last byte of some blocks."""
        size = self._offer.block_size
        return first * size, min((last + 1) * size, self._offer.size) - 1

    def _is_whole(self, answer: http.client.HTTPResponse, wanted: tuple[int, int]) -> bool:
        """Whether the whole file comes, and not the range that was asked for.

        Raises `BlockError` for anything else.
        """
        whole = self._offer.size
        if answer.headers.get("Content-Encoding", "identity") != "identity":
            raise BlockError(f"{self.place}: sends the file encoded; it was not asked to")
        if answer.status == http.client.PARTIAL_CONTENT:
            said = _RANGE.fullmatch(answer.headers.get("Content-Range", ""))
            if said is None or tuple(map(int, said.groups())) != (*wanted, whole):
                raise BlockError(f"{self.place}: sends another range, or a file of another size")
            return False
        if answer.status == http.client.OK:
            if answer.length not in (None, whole):
                raise BlockError(f"{self.place}: has a file of {answer.length} bytes, not {whole}")
            return True
        raise BlockError(f"{self.place}: answers {answer.status} {answer.reason}"[:200])

    def _read(self, answer: http.client.HTTPResponse, first: int, last: int) -> None:
        """Take the missing blocks out of those that come."""
        for index in range(first, last + 1):
            start, end = self._bytes_of(index, index)
            block = self._exactly(answer, end + 1 - start)
            if index == self._missing[0]:
                self._give(index, block)
                self._missing.popleft()
                if not self._missing:
                    return

    def _exactly(self, answer: http.client.HTTPResponse, length: int) -> bytes:
        block = bytearray()
        while len(block) < length:
            piece = answer.read1(length - len(block))
            if not piece:
                raise ConnectionError("the connection ended early")
            block += piece
            self.received += len(piece)
        return bytes(block)

    def _give(self, index: int, block: bytes) -> None:
        while True:
            self._check_running()
            try:
                self._ready.put((index, block), timeout=_LOOK_SECONDS)
            except queue.Full:
                continue
            self._came()
            return

    def _check_running(self) -> None:
        if self._stopped.is_set():
            raise BlockError("it was stopped")
