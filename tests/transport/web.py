"""A web server over TLS that a test starts, asks and ends: the process of `web_host`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.transport.certificates import Authority


class WebHost:
    """Serves a file or a folder on localhost, with a certificate by a CA of its own."""

    def __init__(self, path: Path, ca_folder: Path) -> None:
        authority = Authority(ca_folder)
        certificate = authority.server("localhost")
        files = (path, certificate, certificate.with_suffix(".key"))
        self.ca_file = authority.ca_file
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.transport.web_host", *map(str, files)],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        self.port = int(self._process.stdout.readline())

    def url(self, path: str) -> str:
        return f"https://localhost:{self.port}/{path}"

    def end(self) -> list[str]:
        """Kill it, once; return the paths that it was asked for."""
        if self._process.returncode is not None:
            return []
        self._process.kill()
        return self._process.communicate()[0].splitlines()
