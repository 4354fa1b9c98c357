"""A web server over TLS, in a process of its own, that serves a file, or a folder, in many ways.

    python -m tests.transport.web_host PATH CERTIFICATE KEY

prints its port, and then each path that it was asked for. The first step of a path says how it
answers: `ranges` as servers do, `slow` the same at a pace, `whole` without ranges, `wrong` with
other bytes, `longer` with a file of another size, `missing`, `trickle` a byte at a time, `breaks`
after some blocks, `encoded`, `shifted` by a range that nobody asked for, `hop` by a redirect,
`loop` by one to itself, `away/HOST` by one to another host, `plain` by one without TLS.
"""

from __future__ import annotations

import ssl
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

BREAKS_AFTER = 5 * 4096 + 100
_SLOW = 0.01


class Answers(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    root = Path()
    data = b""

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        say(self.path)
        way, _, rest = self.path.lstrip("/").partition("/")
        if self.root.is_dir():
            file = self.root / rest
            way, self.data = (way, file.read_bytes()) if file.is_file() else ("missing", b"")
        getattr(self, f"_{way}", self._missing)(rest)

    def _ranges(self, _: str, data: bytes | None = None, shift: int = 0) -> None:
        self._begin(self.data if data is None else data, shift)
        self.wfile.write(self.part)

    def _slow(self, _: str) -> None:
        """Serve the file at a pace at which somebody can do something meanwhile."""
        self._begin(self.data)
        for start in range(0, len(self.part), 4096):
            self.wfile.write(self.part[start : start + 4096])
            time.sleep(_SLOW)

    def _whole(self, _: str) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(self.data)))
        self.end_headers()
        self.wfile.write(self.data)

    def _wrong(self, rest: str) -> None:
        self._ranges(rest, self.data[::-1])

    def _longer(self, rest: str) -> None:
        self._ranges(rest, self.data + b"more")

    def _shifted(self, rest: str) -> None:
        self._ranges(rest, shift=1)

    def _missing(self, _: str) -> None:
        self.send_error(404)

    def _encoded(self, _: str) -> None:
        self.send_response(200)
        self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Length", str(len(self.data)))
        self.end_headers()
        self.wfile.write(self.data)

    def _trickle(self, _: str) -> None:
        self._begin(self.data)
        for byte in self.part:
            self.wfile.write(bytes([byte]))
            time.sleep(0.1)

    def _breaks(self, _: str) -> None:
        self._begin(self.data)
        self.wfile.write(self.part[:BREAKS_AFTER])
        self.close_connection = True

    def _loop(self, rest: str) -> None:
        self._redirect(f"/loop/{rest}")

    def _hop(self, rest: str) -> None:
        self._redirect(f"/ranges/{rest}")

    def _away(self, rest: str) -> None:
        self._redirect(f"https://{rest}/file")

    def _plain(self, rest: str) -> None:
        self._redirect(f"http://127.0.0.1/{rest}")

    def _redirect(self, target: str) -> None:
        self.send_response(302)
        self.send_header("Location", target)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _begin(self, data: bytes, shift: int = 0) -> None:
        """Send the head of an answer with a range; its bytes are `part`."""
        first, _, last = self.headers["Range"].removeprefix("bytes=").partition("-")
        start, end = int(first) + shift, min(int(last) + 1 + shift, len(data))
        self.part = data[start:end]
        self.send_response(206)
        self.send_header("Content-Range", f"bytes {start}-{end - 1}/{len(data)}")
        self.send_header("Content-Length", str(len(self.part)))
        self.end_headers()


class Host(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_: object) -> None:
        """Say nothing of clients that leave."""


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main(file: str, certificate: str, key: str, port: str = "0") -> None:
    Answers.root = Path(file)
    Answers.data = b"" if Answers.root.is_dir() else Answers.root.read_bytes()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    host = Host(("127.0.0.1", int(port)), Answers)
    host.socket = context.wrap_socket(host.socket, server_side=True)
    say(str(host.server_address[1]))
    host.serve_forever()


if __name__ == "__main__":
    main(*sys.argv[1:])
