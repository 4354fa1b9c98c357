"""The program: it listens on a socket file, or on TCP where asked to, and stops in order."""

from __future__ import annotations

import os
import secrets
import signal
import socket
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from fleetledger.device_agent.apps.http.application import ModelServer, make_app
from fleetledger.device_agent.home.home import AgentHome
from fleetledger.device_agent.models.comparison.live import live_sample_of
from fleetledger.device_agent.models.inference.running_model import RunningModel
from fleetledger.runtime.private_file import write_private
from fleetledger.runtime.settings_file import SettingsError, read_secret
from fleetledger.transport.errors import ListenError
from fleetledger.transport.pages.server import ListenAddress, server_of

SOCKET_NAME = "model.sock"
TOKEN_NAME = "serve.token"  # noqa: S105 - the name of its file
"""File of the home with what requests over TCP show."""
_LAST_PORT = 65_535
_LONGEST_PATH = 107
"""Bytes of a socket's path that Linux takes."""


def serve(home: Path, tcp: tuple[str, int] | None, tell: Callable[[str], None]) -> None:
    """Serve the model of a home until SIGTERM or SIGINT; `tell` is given where, once it listens.

    Raises `NoModelError`, `LoadError`, `MissingError`, `SettingsError`, `ListenError`.
    """
    with RunningModel.open(home) as model:
        hosts = frozenset() if tcp is None else frozenset({tcp[0].lower(), "localhost"})
        token = "" if tcp is None else token_of(home)
        server = ModelServer(model, live_sample_of(AgentHome.open(home)), hosts, token)
        with listener(home, tcp) as (bound, where):
            shown = f"; each request shows the token in {home / TOKEN_NAME}" if token else ""
            tell(f"model {model.version} answers at {where}{shown}")
            for number in (signal.SIGTERM, signal.SIGINT):
                # Uvicorn stops at a signal, and sends it once more to whoever ran it: that is us.
                signal.signal(number, lambda *_: None)
            server_of(make_app(server), ListenAddress(), server.stopping.set).run(sockets=[bound])


def token_of(home: Path) -> str:
    """Return what requests over TCP show, made where there is none; raise `ListenError`."""
    path = home / TOKEN_NAME
    try:
        if not path.exists():
            write_private(path, f"{secrets.token_urlsafe(32)}\n".encode())
        token = read_secret(home, Path(TOKEN_NAME))
    except (OSError, SettingsError) as error:
        raise ListenError(f"{path}: no token for --tcp: {error}") from error
    if not token:
        raise ListenError(f"{path}: is empty; delete it, and another token is made")
    return token


def address_of(text: str) -> tuple[str, int]:
    """Return host and port of `HOST:PORT`; raise `ListenError`."""
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or int(port) > _LAST_PORT:
        raise ListenError(f"--tcp {text!r}: give HOST:PORT, like 127.0.0.1:8788")
    return host.removeprefix("[").removesuffix("]"), int(port)


@contextmanager
def listener(home: Path, tcp: tuple[str, int] | None) -> Iterator[tuple[socket.socket, str]]:
    """Yield a socket that listens, and how a person names it; raise `ListenError`."""
    if tcp is not None:
        yield from _tcp(*tcp)
    else:
        yield from _unix(home / SOCKET_NAME)


def _tcp(host: str, port: int) -> Iterator[tuple[socket.socket, str]]:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        bound = socket.create_server((host, port), family=family, backlog=128)
    except OSError as error:
        raise ListenError(f"{host}:{port}: cannot listen there: {error}") from error
    with bound:
        name = f"[{host}]" if ":" in host else host
        yield bound, f"http://{name}:{bound.getsockname()[1]}"


def _unix(path: Path) -> Iterator[tuple[socket.socket, str]]:
    if len(os.fsencode(path)) > _LONGEST_PATH:
        raise ListenError(f"{path}: longer than {_LONGEST_PATH} bytes; give a --home nearer by")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as bound:
        try:
            _remove_dead(path)
            bound.bind(str(path))
            path.chmod(0o660)
            bound.listen(128)
        except OSError as error:
            raise ListenError(f"{path}: cannot listen there: {error.strerror}") from error
        try:
            yield bound, f"{path} (curl --unix-socket {path} http://localhost/v1/model)"
        finally:
            path.unlink(missing_ok=True)


def _remove_dead(path: Path) -> None:
    """Remove a socket on which nobody listens any more; raise `ListenError` where somebody does."""
    if not path.exists():
        return
    if not stat.S_ISSOCK(path.stat().st_mode):
        raise ListenError(f"{path}: is no socket; move it away")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            path.unlink()
            return
    raise ListenError(f"{path}: another `fleetledger agent serve` answers there")
