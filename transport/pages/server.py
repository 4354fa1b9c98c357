"""A program of pages listens, says where, and stops in order."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import uvicorn
from starlette.applications import Starlette

from fleetledger.runtime.service_manager import ServiceManager
from fleetledger.transport.errors import ListenError
from fleetledger.transport.pages.connections import BoundedProtocol
from fleetledger.transport.pages.doors import Doors
from fleetledger.transport.pages.people import Person

MOST_CONNECTIONS = 500
STOP_SECONDS = 3
_HEADER_BYTES = 16 * 1024
IN_CLEAR = (
    "warning: others may read along, links and sessions too: it is reached from other machines "
    "without TLS; give --tls-cert and --tls-key, or put a proxy with TLS before it"
)


@dataclass(frozen=True)
class ListenAddress:
    """Where a program listens, and under which names it may be asked."""

    host: str = "127.0.0.1"
    port: int = 0
    """0 for any that is free."""
    allowed_hosts: tuple[str, ...] = ()
    certificate: Path | None = None
    key: Path | None = None
    proxy: str | None = None
    """Address of the proxy before it, whose `X-Forwarded-For` is believed; nobody's else is."""

    @classmethod
    def of(
        cls,
        host: str,
        port: int,
        allowed_hosts: Sequence[str],
        certificate: Path | None,
        key: Path | None,
    ) -> ListenAddress:
        """Return what options of a command line say; raise `ListenError`."""
        if (certificate is None) is not (key is None):
            raise ListenError("--tls-cert and --tls-key belong together: give both, or neither")
        return cls(host, port, tuple(allowed_hosts), certificate, key)

    @property
    def encrypted(self) -> bool:
        """Whether it speaks TLS itself."""
        return self.certificate is not None

    @property
    def local(self) -> bool:
        """Whether only this machine reaches it."""
        return self.host in {"127.0.0.1", "::1", "localhost"}

    @property
    def in_clear(self) -> bool:
        """Whether others may read along: then `IN_CLEAR` is to be said."""
        return not self.local and not self.encrypted

    def url(self, port: int) -> str:
        """Return its address, listening on `port`."""
        name = "127.0.0.1" if self.host in {"0.0.0.0", "::"} else self.host  # noqa: S104 - compared
        if self.allowed_hosts and not self.local:
            name = self.allowed_hosts[0]
        bracketed = f"[{name}]" if ":" in name else name
        return f"http{'s' if self.encrypted else ''}://{bracketed}:{port}"


def link_of(doors: Doors, url: str, person: Person) -> str:
    """Return a new link through these doors to the program at `url`; it works once."""
    return f"{url}/login?token={doors.links.make(person, time.time_ns())}"


def listen(listening: ListenAddress) -> socket.socket:
    """Return a socket that listens; raise `ListenError` where that cannot be."""
    family = socket.AF_INET6 if ":" in listening.host else socket.AF_INET
    try:
        return socket.create_server((listening.host, listening.port), family=family, backlog=128)
    except OSError as error:
        raise ListenError(
            f"{listening.host}:{listening.port}: cannot listen there: {error}; "
            "say another --host or --port"
        ) from error


class PageServer(uvicorn.Server):
    """Lets those go who listen for changes before it waits for answers to end."""

    def __init__(self, config: uvicorn.Config, stop: Callable[[], object] | None) -> None:
        super().__init__(config)
        self._stop = stop
        self._manager = ServiceManager.take()

    async def on_tick(self, counter: int) -> bool:
        """Say that the loop goes round, ten times a second."""
        self._manager.beat()
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop in order."""
        if self._stop is not None:
            self._stop()
        await super().shutdown(sockets)


def server_of(
    app: Starlette, listening: ListenAddress, stop: Callable[[], object] | None = None
) -> uvicorn.Server:
    """Return a server of `app`; `stop` has whoever listens for changes let go."""
    config = uvicorn.Config(
        app,
        log_config=None,
        log_level="warning",
        access_log=False,
        server_header=False,
        http=BoundedProtocol,
        ws="none",
        h11_max_incomplete_event_size=_HEADER_BYTES,
        limit_concurrency=MOST_CONNECTIONS,
        timeout_keep_alive=10,
        proxy_headers=listening.proxy is not None,
        forwarded_allow_ips=None if listening.proxy is None else [listening.proxy],
        timeout_graceful_shutdown=STOP_SECONDS,
        ssl_certfile=listening.certificate,
        ssl_keyfile=listening.key,
    )
    return PageServer(config, stop)
