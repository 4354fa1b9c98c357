"""The dashboard as a program: it listens, says where, and stops in order."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import uvicorn
from starlette.applications import Starlette

from coordinator.dashboard.access.doors import Doors
from coordinator.dashboard.access.people import Person, Role
from coordinator.dashboard.app import make_app
from coordinator.dashboard.following import LedgerFollower
from coordinator.errors import CoordinatorError
from schemas.service_manager import ServiceManager

DEFAULT_PORT = 8787
MOST_CONNECTIONS = 500
STOP_SECONDS = 3
_HEADER_BYTES = 16 * 1024


class DashboardError(CoordinatorError):
    """The dashboard cannot listen where it was told to; the text says why."""


@dataclass(frozen=True)
class ListenAddress:
    """Where the dashboard listens, and under which names it may be asked."""

    host: str = "127.0.0.1"
    port: int = DEFAULT_PORT
    """0 for any that is free."""
    allowed_hosts: tuple[str, ...] = ()
    certificate: Path | None = None
    key: Path | None = None
    per_device: bool = False
    """Name devices in metrics."""

    @property
    def encrypted(self) -> bool:
        """Whether it speaks TLS itself."""
        return self.certificate is not None

    @property
    def local(self) -> bool:
        """Whether only this machine reaches it."""
        return self.host in {"127.0.0.1", "::1", "localhost"}

    def url(self, port: int) -> str:
        """Return its address, listening on `port`."""
        name = "127.0.0.1" if self.host in {"0.0.0.0", "::"} else self.host  # noqa: S104 - compared
        if self.allowed_hosts and not self.local:
            name = self.allowed_hosts[0]
        bracketed = f"[{name}]" if ":" in name else name
        return f"http{'s' if self.encrypted else ''}://{bracketed}:{port}"


def serve(home: Path, listening: ListenAddress, name: str, tell: Callable[[str], None]) -> None:
    """Serve until SIGTERM or SIGINT; `tell` is given links for `name` once they can be opened.

    Raises `SettingsError` where `home` is no coordinator's, and `DashboardError`.
    """
    app = make_app(
        home,
        hosts={listening.host, *listening.allowed_hosts},
        per_device=listening.per_device,
    )
    with listen(listening) as listener:
        url = listening.url(listener.getsockname()[1])
        tell(f"the dashboard of {app.state.dashboard.fleet} is at {url}; links that work once:")
        for role in Role:
            tell(f"{role.value:>8}  {link(home, url, Person(name, role))}")
        if not listening.local and not listening.encrypted:
            tell(_IN_CLEAR)
        server_of(app, listening).run(sockets=[listener])


def link(home: Path, url: str, person: Person) -> str:
    """Return a new link to the dashboard at `url`, which works once."""
    return link_of(Doors.of(home, time.time_ns), url, person)


def link_of(doors: Doors, url: str, person: Person) -> str:
    """Return a new link through these doors to the dashboard at `url`."""
    return f"{url}/login?token={doors.links.make(person, time.time_ns())}"


_IN_CLEAR = (
    "warning: others may read along, links and sessions too: it is reached from other machines "
    "without TLS; give --tls-cert and --tls-key, or put a proxy with TLS before it"
)


def listen(listening: ListenAddress) -> socket.socket:
    """Return a socket that listens; raise `DashboardError` where that cannot be."""
    family = socket.AF_INET6 if ":" in listening.host else socket.AF_INET
    try:
        return socket.create_server((listening.host, listening.port), family=family, backlog=128)
    except OSError as error:
        raise DashboardError(
            f"{listening.host}:{listening.port}: cannot listen there: {error}; "
            "say another --host or --port"
        ) from error


class _Server(uvicorn.Server):
    """Lets those go who listen for changes before it waits for answers to end."""

    def __init__(self, config: uvicorn.Config, follower: LedgerFollower) -> None:
        super().__init__(config)
        self._follower = follower
        self._manager = ServiceManager.take()

    async def on_tick(self, counter: int) -> bool:
        """Say that the loop goes round, ten times a second."""
        self._manager.beat()
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop in order."""
        self._follower.stop()
        await super().shutdown(sockets)


def server_of(app: Starlette, listening: ListenAddress) -> uvicorn.Server:
    """Return a server of `app`, which stops in order."""
    config = uvicorn.Config(
        app,
        log_config=None,
        log_level="warning",
        access_log=False,
        server_header=False,
        http="h11",
        ws="none",
        h11_max_incomplete_event_size=_HEADER_BYTES,
        limit_concurrency=MOST_CONNECTIONS,
        timeout_keep_alive=10,
        timeout_graceful_shutdown=STOP_SECONDS,
        ssl_certfile=listening.certificate,
        ssl_keyfile=listening.key,
    )
    return _Server(config, app.state.follower)
