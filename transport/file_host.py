"""A small web server for the files that a coordinator offers: HTTP/1.1, GET with ranges.

Over plain HTTP the kernel sends a file by `sendfile`; with TLS it is read in pieces. A path holds
the file's digest, the device, and a token for both that counts for a while. Whoever shows none gets
403, whatever he asks for, and learns nothing of what is there.

Nothing from a connection is believed, and everything is bounded: connections, the length of a
request's head, the time for it, the time for each piece of an answer, and connections of a device.
One thread, with a loop of its own, owns it all.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import logging
import os
import re
import secrets
import socket
import ssl
import threading
from base64 import urlsafe_b64encode
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO

from fleetledger.schemas.values import DeviceId, Digest
from fleetledger.transport.clock import SYSTEM_CLOCK, Clock
from fleetledger.transport.errors import ListenError, ThreadEndedError, TlsError

log = logging.getLogger("transport.files")

MOST_CONNECTIONS = 512
MOST_OF_DEVICE = 4
HEAD_BYTES = 4096
HEAD_SECONDS = 10.0
"""For a handshake, for a request's head, and for another request on an open connection."""
PIECE_SECONDS = 60.0
"""For each piece of an answer; a link carries 4 KiB a second at least."""
_PIECE_BYTES = 256 * 1024
_PATH = re.compile(r"/([0-9a-f]{64})/([A-Za-z0-9_-]{1,64})/([0-9]{1,12})/([A-Za-z0-9_-]{22})")
_RANGE = re.compile(r"bytes=([0-9]{1,12})-([0-9]{0,12})")
_REASONS = {
    200: "OK",
    206: "Partial Content",
    400: "Bad Request",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    416: "Range Not Satisfiable",
    431: "Request Header Fields Too Large",
    503: "Service Unavailable",
}
_MAC_BYTES = 16


class FileTokens:
    """Tokens for a file and a device, that count between half of `seconds` and all of it.

    The law: `counts(device, digest, *parts)` is true of the parts of `path(device, digest)`, until
    they have expired, and of nothing else. The secret lives as long as the program.
    """

    def __init__(self, seconds: int, clock: Clock = SYSTEM_CLOCK) -> None:
        self._step = max(1, seconds // 2)
        self._clock = clock
        self._secret = secrets.token_bytes(32)

    def path(self, device: DeviceId, digest: Digest) -> str:
        """Return the path of a file for a device; it stays the same for half of the time."""
        expires = (int(self._clock.seconds()) // self._step + 2) * self._step
        return f"/{digest}/{device}/{expires}/{self._mac(device, digest, expires)}"

    def counts(self, device: DeviceId, digest: Digest, expires: int, mac: str) -> bool:
        """Return whether a token is ours, for this file and device, and has not expired."""
        ours = hmac.compare_digest(mac.encode(), self._mac(device, digest, expires).encode())
        return ours and self._clock.seconds() < expires

    def _mac(self, device: DeviceId, digest: Digest, expires: int) -> str:
        made = hmac.digest(self._secret, f"{device}/{digest}/{expires}".encode(), sha256)
        return urlsafe_b64encode(made[:_MAC_BYTES]).decode().rstrip("=")


@dataclass(frozen=True)
class HostedFiles:
    """Where a host listens, and what it may give."""

    address: str
    """Own address to listen at; empty for all."""
    port: int
    """0 for any that is free."""
    tokens: FileTokens
    data: Callable[[Digest], Path | bytes | None]
    """Returns what is offered under a digest; None for anything else."""
    allows: Callable[[DeviceId], bool]
    """Returns whether a device may have files."""
    certificate: tuple[Path, Path] | None = None
    """Certificate and key; HTTP without TLS where there is none."""


@dataclass
class _Request:
    digest: Digest
    device: DeviceId
    head_only: bool
    keeps: bool
    range: tuple[int, int | None] | None = None


class _RefusedError(Exception):
    """A request gets this status and no file."""

    def __init__(self, status: int) -> None:
        super().__init__(str(status))
        self.status = status


@dataclass(eq=False)
class _Visit:
    """A connection; `device` is known once it has shown a token."""

    socket: socket.socket
    task: asyncio.Task[None] | None = None
    device: DeviceId | None = None
    writer: asyncio.StreamWriter | None = field(default=None, repr=False)


class FileHost:
    """Serves files in a thread of its own from `start` to `stop`."""

    def __init__(self, what: HostedFiles) -> None:
        self.on_failure: Callable[[Exception], None] | None = None
        """Told, in the host's thread, of an error that ended it."""
        self.sent = 0
        """Bytes of files that were handed to the network."""
        self.refused = 0
        """Requests that got no file."""
        self.port = what.port
        """Where it listens, once it has started."""
        self._what = what
        self._visits: dict[_Visit, None] = {}
        """The oldest first."""
        self._of_device: Counter[DeviceId] = Counter()
        self._files: dict[Digest, BinaryIO] = {}
        self._certificates: tuple[object, ssl.SSLContext] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._accepting: asyncio.Task[None] | None = None
        self._thread: threading.Thread | None = None

    @property
    def encrypted(self) -> bool:
        """Whether it speaks TLS."""
        return self._what.certificate is not None

    def url(self, device: DeviceId, digest: Digest) -> str:
        """Return port and path at which a device gets a file; its host the device knows."""
        return f":{self.port}{self._what.tokens.path(device, digest)}"

    def start(self) -> None:
        """Listen; raises `ListenError` and `TlsError`."""
        address, port = self._what.address, self._what.port
        self._context()
        try:
            if address:
                family = socket.AF_INET6 if ":" in address else socket.AF_INET
                listener = socket.create_server((address, port), family=family, backlog=256)
            else:
                both = socket.has_dualstack_ipv6()
                listener = socket.create_server(
                    ("", port),
                    family=socket.AF_INET6 if both else socket.AF_INET,
                    backlog=256,
                    dualstack_ipv6=both,
                )
        except OSError as error:
            raise ListenError(
                f"files.port: {port}: cannot listen at {address or 'all addresses'}: "
                f"{error.strerror}; give another one"
            ) from error
        listener.setblocking(False)
        self.port = listener.getsockname()[1]
        self._loop = asyncio.new_event_loop()
        self._accepting = self._loop.create_task(self._accept(listener))
        self._thread = threading.Thread(target=self._run, name="files", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End, with all connections."""
        if self._thread is None or self._loop is None or self._accepting is None:
            return
        with contextlib.suppress(RuntimeError):  # its thread has ended by itself
            self._loop.call_soon_threadsafe(self._accepting.cancel)
        self._thread.join()
        self._thread = None

    def _run(self) -> None:
        assert self._loop is not None
        assert self._accepting is not None
        try:
            self._loop.run_until_complete(self._accepting)
        except asyncio.CancelledError:
            pass  # `stop` was called
        except Exception as error:
            log.exception("the host of files failed")
            if self.on_failure is not None:
                self.on_failure(ThreadEndedError("files", error))
        finally:
            self._loop.close()

    async def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        try:
            while True:
                try:
                    connected, _ = await loop.sock_accept(listener)
                except OSError as error:  # no descriptors are left, or the other side has gone
                    log.debug("a connection was not taken: %s", error)
                    await asyncio.sleep(0.1)
                    continue
                if len(self._visits) >= MOST_CONNECTIONS and not self._make_room():
                    connected.close()
                    continue
                visit = _Visit(connected)
                self._visits[visit] = None
                visit.task = loop.create_task(self._receive(visit))
                await asyncio.sleep(0)
        finally:
            listener.close()
            tasks = [visit.task for visit in self._visits if visit.task is not None]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            for file in self._files.values():
                file.close()

    def _make_room(self) -> bool:
        """End the oldest connection that has shown no token; return whether there was one."""
        for visit in self._visits:
            if visit.device is None and visit.task is not None:
                visit.task.cancel()
                del self._visits[visit]
                return True
        return False

    async def _receive(self, visit: _Visit) -> None:
        try:
            await self._converse(visit)
        except (OSError, asyncio.TimeoutError, asyncio.IncompleteReadError, RuntimeError) as error:
            log.debug("a connection ended: %r", error)
        finally:
            self._visits.pop(visit, None)
            if visit.device is not None:
                self._of_device[visit.device] -= 1
                self._of_device += Counter()
            if visit.writer is not None:
                visit.writer.transport.abort()
            visit.socket.close()

    async def _converse(self, visit: _Visit) -> None:
        """Answer one request after the other."""
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=HEAD_BYTES)
        protocol = asyncio.StreamReaderProtocol(reader)
        secure = self._context()
        visit.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        transport, _ = await loop.connect_accepted_socket(
            lambda: protocol,
            visit.socket,
            ssl=secure,
            ssl_handshake_timeout=None if secure is None else HEAD_SECONDS,
        )
        writer = visit.writer = asyncio.StreamWriter(transport, protocol, reader, loop)
        keeps = True
        while keeps:
            try:
                keeps = await self._answer_next(visit, reader)
            except _RefusedError as refused:
                self.refused += 1
                await _say(writer, _head(refused.status, 0, keeps=False))
                writer.close()
                await asyncio.wait_for(writer.wait_closed(), HEAD_SECONDS)
                return

    async def _answer_next(self, visit: _Visit, reader: asyncio.StreamReader) -> bool:
        """Answer a request; return whether another may follow."""
        try:
            head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), HEAD_SECONDS)
        except asyncio.LimitOverrunError as error:
            raise _RefusedError(431) from error
        request = self._read(head)
        self._admit(visit, request.device)
        data = self._data_of(request.digest)
        size = len(data) if isinstance(data, bytes) else os.fstat(data.fileno()).st_size
        first, last, status = 0, size - 1, 200
        if request.range is not None:
            first, end = request.range
            last, status = min(last, size if end is None else end), 206
            if first > last:
                raise _RefusedError(416)
        length = last + 1 - first
        writer = visit.writer
        assert writer is not None
        part = f"Content-Range: bytes {first}-{last}/{size}\r\n" if status == 206 else ""
        await _say(writer, _head(status, length, part, keeps=request.keeps))
        if not request.head_only:
            await self._send(writer, data, first, length)
        return request.keeps

    def _read(self, head: bytes) -> _Request:
        """Read a request and check its token; nothing is said of what is not allowed."""
        try:
            line, *lines = head.decode("ascii").rstrip("\r\n").split("\r\n")
            method, path, version = line.split(" ")
            named = [item.split(":", 1) for item in lines]
            fields = {name.lower(): value.strip() for name, value in named}
        except ValueError as error:
            raise _RefusedError(400) from error
        if version not in {"HTTP/1.1", "HTTP/1.0"}:
            raise _RefusedError(400)
        if method not in {"GET", "HEAD"}:
            raise _RefusedError(405)
        if "transfer-encoding" in fields or fields.get("content-length", "0") != "0":
            raise _RefusedError(400)
        found = _PATH.fullmatch(path)
        if found is None:
            raise _RefusedError(403)
        digest, device = Digest.known(found[1]), DeviceId.known(found[2])
        if not self._what.tokens.counts(device, digest, int(found[3]), found[4]):
            raise _RefusedError(403)
        keeps = version == "HTTP/1.1" and fields.get("connection", "").lower() != "close"
        request = _Request(digest, device, method == "HEAD", keeps)
        if "range" in fields:
            wanted = _RANGE.fullmatch(fields["range"])
            if wanted is None:
                raise _RefusedError(416)
            request.range = int(wanted[1]), int(wanted[2]) if wanted[2] else None
        return request

    def _admit(self, visit: _Visit, device: DeviceId) -> None:
        if not self._what.allows(device) or visit.device not in {None, device}:
            raise _RefusedError(403)
        if visit.device is None:
            if self._of_device[device] >= MOST_OF_DEVICE:
                raise _RefusedError(503)
            visit.device = device
            self._of_device[device] += 1

    def _data_of(self, digest: Digest) -> BinaryIO | bytes:
        data = self._what.data(digest)
        if data is None:
            self._close(digest)
            raise _RefusedError(404)
        if isinstance(data, bytes):
            return data
        if digest not in self._files:
            for other in [known for known in self._files if self._what.data(known) is None]:
                self._close(other)
            try:
                self._files[digest] = data.open("rb")
            except OSError as error:
                raise _RefusedError(404) from error
        return self._files[digest]

    def _close(self, digest: Digest) -> None:
        file = self._files.pop(digest, None)
        if file is not None:
            file.close()

    async def _send(
        self, writer: asyncio.StreamWriter, data: BinaryIO | bytes, first: int, length: int
    ) -> None:
        loop, end = asyncio.get_running_loop(), first + length
        while first < end:
            count = min(_PIECE_BYTES, end - first)
            if isinstance(data, bytes):
                await _say(writer, data[first : first + count])
            elif self.encrypted:
                piece = os.pread(data.fileno(), count, first)
                if len(piece) < count:
                    raise ConnectionError("the file has become shorter")
                await _say(writer, piece)
            else:
                sending = loop.sendfile(writer.transport, data, first, count, fallback=False)
                if await asyncio.wait_for(sending, PIECE_SECONDS) < count:
                    raise ConnectionError("the file has become shorter")
            first += count
            self.sent += count

    def _context(self) -> ssl.SSLContext | None:
        """Return what a connection is encrypted with, read again where the files are others."""
        if self._what.certificate is None:
            return None
        try:
            state = tuple(file.stat().st_mtime_ns for file in self._what.certificate)
            if self._certificates is None or self._certificates[0] != state:
                context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
                context.minimum_version = ssl.TLSVersion.TLSv1_2
                context.load_cert_chain(*self._what.certificate, password=lambda: "")
                self._certificates = state, context
        except (OSError, ssl.SSLError) as error:
            if self._certificates is None:
                raise TlsError(
                    f"files.certificate_file: {self._what.certificate[0]}: cannot be used "
                    f"({error}); `fleetledger coordinator provision` makes one"
                ) from error
            log.warning("files.certificate_file: the newer one cannot be used: %s", error)
        return self._certificates[1]


def _head(status: int, length: int, further: str = "", *, keeps: bool) -> bytes:
    return (
        f"HTTP/1.1 {status} {_REASONS[status]}\r\nContent-Type: application/octet-stream\r\n"
        f"Content-Length: {length}\r\n{further}Accept-Ranges: bytes\r\nCache-Control: no-store\r\n"
        f"Connection: {'keep-alive' if keeps else 'close'}\r\n\r\n"
    ).encode()


async def _say(writer: asyncio.StreamWriter, data: bytes) -> None:
    writer.write(data)
    await asyncio.wait_for(writer.drain(), PIECE_SECONDS)
