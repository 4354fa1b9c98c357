"""`agent label` as a program: it listens, and prints the link by which its owner comes in."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from fleetledger.device_agent.apps.label_page.application import PROGRAM, LabelDesk, make_app
from fleetledger.device_agent.home.home import AgentHome
from fleetledger.transport.pages import words
from fleetledger.transport.pages.doors import Doors
from fleetledger.transport.pages.people import Person, Role, own_name
from fleetledger.transport.pages.server import IN_CLEAR, ListenAddress, link_of, listen, server_of

Tell = Callable[[str], None]


def serve(home: Path, listening: ListenAddress, hold_out: int, tell: Tell) -> None:
    """Serve until SIGTERM or SIGINT; `tell` is given a link once it can be opened.

    Raises `SettingsError`, `LabelError`, `ListenError`.
    """
    desk = LabelDesk(AgentHome.open(home), hold_out)
    app = make_app(desk, {listening.host, *listening.allowed_hosts})
    with listen(listening) as listener:
        url = listening.url(listener.getsockname()[1])
        waiting = words.plural(len(desk.labeller.inbox.waiting()), "image")
        tell(f"{waiting} to name; a link that works once:")
        tell(link_of(app.state.doors, url, _owner()))
        if listening.in_clear:
            tell(IN_CLEAR)
        server_of(app, listening).run(sockets=[listener])


def link(home: Path, listening: ListenAddress) -> str:
    """Return another link, for a program that listens there."""
    doors = Doors.of(AgentHome.open(home).folder, time.time_ns, PROGRAM)
    return link_of(doors, listening.url(listening.port), _owner())


def _owner() -> Person:
    return Person(own_name(), Role.OPERATOR)
