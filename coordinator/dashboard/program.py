"""The dashboard as a program: it listens, and says where."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from fleetledger.coordinator.dashboard.app import make_app
from fleetledger.transport.pages import server
from fleetledger.transport.pages.doors import Doors
from fleetledger.transport.pages.people import Person, Role

DEFAULT_PORT = 8787


def serve(
    home: Path,
    listening: server.ListenAddress,
    name: str,
    tell: Callable[[str], None],
    *,
    per_device: bool = False,
) -> None:
    """Serve until SIGTERM or SIGINT; `tell` is given links for `name` once they can be opened.

    `per_device` has metrics name devices. Raises `SettingsError` where `home` is no coordinator's,
    and `ListenError`.
    """
    hosts = {listening.host, *listening.allowed_hosts}
    app = make_app(home, hosts=hosts, per_device=per_device)
    with server.listen(listening) as listener:
        url = listening.url(listener.getsockname()[1])
        tell(f"the dashboard of {app.state.dashboard.fleet} is at {url}; links that work once:")
        for role in Role:
            tell(f"{role.value:>8}  {link(home, url, Person(name, role))}")
        if listening.in_clear:
            tell(server.IN_CLEAR)
        server.server_of(app, listening, app.state.follower.stop).run(sockets=[listener])


def link(home: Path, url: str, person: Person) -> str:
    """Return a new link to the dashboard at `url`, which works once."""
    return server.link_of(Doors.of(home, time.time_ns), url, person)
