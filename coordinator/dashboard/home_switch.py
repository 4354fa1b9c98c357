"""A dashboard of one home after another, as a program that another one starts: a simulation does.

    python -m fleetledger.coordinator.dashboard.home_switch [--port PORT] [--role viewer]

It writes one line of JSON, a `StartedDashboard`, to its standard output. Its parent writes a line,
a `HomeToShow`, to its standard input for every home, whether that is there already or not, and ends
the program by closing that or by SIGTERM.
"""

from __future__ import annotations

import argparse
import os
import select
import sqlite3
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import uvicorn

from fleetledger.coordinator.dashboard.app import make_app
from fleetledger.coordinator.dashboard.placeholder import make_waiting_app
from fleetledger.coordinator.dashboard.program import DEFAULT_PORT
from fleetledger.coordinator.errors import LedgerError
from fleetledger.coordinator.ledger.reader import ledger_of
from fleetledger.runtime.errors import FleetledgerError
from fleetledger.runtime.installed_version import installed_version
from fleetledger.runtime.strict import Strict
from fleetledger.transport.errors import ListenError
from fleetledger.transport.pages.doors import Doors
from fleetledger.transport.pages.people import Person, Role, own_name
from fleetledger.transport.pages.server import ListenAddress, link_of, listen, server_of

_LOOK_SECONDS = 0.2


class StartedDashboard(Strict):
    """What the program says of itself, once."""

    url: str = ""
    link: str = ""
    """Works once."""
    problem: str = ""
    """Why there is no dashboard; then the program has ended."""


class HomeToShow(Strict):
    """A coordinator's home that is to be shown from now on."""

    home: Path
    virtual: bool = False
    """The fleet's clock is not that of this machine: now is when the newest entry was written."""


class Homes:
    """Follows what the parent writes, and has the server end when there is something to do."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._server: uvicorn.Server | None = None
        self._lock = threading.Lock()
        self.shown: HomeToShow | None = None
        """None until a home is there."""
        self.ended = False

    def follow(self) -> None:
        """Follow until the parent ends it."""
        wanted: HomeToShow | None = None
        for lines in _read(self._descriptor):
            for line in lines:
                wanted = HomeToShow.model_validate_json(line)
            if wanted is not None and wanted != self.shown and _is_there(wanted.home):
                self._turn(wanted)
        self.ended = True
        self._turn(self.shown)

    def serving(self, server: uvicorn.Server, shown: HomeToShow | None) -> None:
        """End `server`, which serves `shown`, when that is no more what is to be shown."""
        with self._lock:
            self._server = server
            server.should_exit = self.ended or shown != self.shown

    def _turn(self, shown: HomeToShow | None) -> None:
        with self._lock:
            self.shown = shown
            if self._server is not None:
                self._server.should_exit = True


def serve_changing(port: int | None, role: Role) -> None:
    """Serve what standard input names, until it ends; None: the usual port, or any that is free.

    Raises `ListenError` where it cannot listen.
    """
    with tempfile.TemporaryDirectory() as folder:
        doors = Doors.of(Path(folder), time.time_ns)
        listening = ListenAddress(port=DEFAULT_PORT if port is None else port)
        try:
            listener = listen(listening)
        except ListenError:
            if port is not None:
                raise
            listening = ListenAddress(port=0)
            listener = listen(listening)
        with listener:
            url = listening.url(listener.getsockname()[1])
            _say(StartedDashboard(url=url, link=link_of(doors, url, Person(own_name(), role))))
            homes = Homes(sys.stdin.fileno())
            threading.Thread(target=homes.follow, daemon=True).start()
            while not homes.ended:
                shown = homes.shown
                if shown is None:
                    app = make_waiting_app(installed_version())
                else:
                    app = make_app(shown.home, now_ns=_clock(shown), doors=doors)
                server = server_of(app, listening, app.state.follower.stop)
                homes.serving(server, shown)
                server.run(sockets=[listener.dup()])  # which the server closes


class LedgerClock:
    """The time of a fleet whose clock is its own: when its newest entry was written."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._last_ns = 0

    def __call__(self) -> int:
        """Return it in nanoseconds since 1970; as before where the ledger cannot be read now."""
        with suppress(LedgerError, sqlite3.Error), ledger_of(self._home) as ledger:
            checkpoint = ledger.checkpoint
            self._last_ns = checkpoint.time_ns if checkpoint else 0
        return self._last_ns


def _clock(shown: HomeToShow) -> Callable[[], int]:
    return LedgerClock(shown.home) if shown.virtual else time.time_ns


def _is_there(home: Path) -> bool:
    try:
        with ledger_of(home) as ledger:
            return ledger.size > 0
    except (LedgerError, sqlite3.Error):
        return False


def _read(descriptor: int) -> Iterator[list[bytes]]:
    """Yield the whole lines that came of late, none of them too, until the end of the file."""
    rest = b""
    while True:
        ready, _, _ = select.select([descriptor], [], [], _LOOK_SECONDS)
        if ready:
            data = os.read(descriptor, 65_536)
            if not data:
                return
            *lines, rest = (rest + data).split(b"\n")
            yield lines
        else:
            yield []


def _say(started: StartedDashboard) -> None:
    sys.stdout.write(started.model_dump_json() + "\n")
    sys.stdout.flush()


def main() -> int:
    """Run the program; return its exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int)
    parser.add_argument("--role", type=Role, default=Role.OPERATOR)
    asked = parser.parse_args()
    try:
        serve_changing(asked.port, asked.role)
    except FleetledgerError as error:
        _say(StartedDashboard(problem=str(error)))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
