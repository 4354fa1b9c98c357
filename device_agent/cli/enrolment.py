"""`agent enrol` and `agent rotate-key`: give this device a key, while no agent runs here."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fleetledger.device_agent.errors import HomeError
from fleetledger.device_agent.home.home import AgentHome, lock_home, write_coordinator_key
from fleetledger.device_agent.home.keys import KeyRing
from fleetledger.schemas.token import Token


def enrol(folder: Path, text: str) -> str:
    """Make a key for the device of a home, to be confirmed by a token; say what comes next.

    Raises `SchemaError` for what is no token, and `HomeError` for one of another device, fleet or
    coordinator, or while an agent runs.
    """
    token = Token.read(text)
    with _held(folder) as home:
        _check_names(home, token)
        write_coordinator_key(home, token.coordinator_key)
        return _keys(home).enrol(token)


def rotate_key(folder: Path) -> str:
    """Make another key for the device of a home; say what comes next. Raises `HomeError`."""
    with _held(folder) as home:
        return _keys(home).rotate()


def _keys(home: AgentHome) -> KeyRing:
    return KeyRing.beside(home.folder, home.settings.fleet, home.settings.device)


def _check_names(home: AgentHome, token: Token) -> None:
    settings = home.settings
    for name, here, there in (
        ("fleet", settings.fleet, token.fleet),
        ("device", settings.device, token.device),
    ):
        if here != there:
            raise HomeError(
                f"{home.settings_file}: {name}: is {str(here)!r}, and the token is for "
                f"{str(there)!r}; ask the operator for one of your own"
            )


@contextmanager
def _held(folder: Path) -> Iterator[AgentHome]:
    """Keep agents out of a home, and give it."""
    home = AgentHome.open(folder)
    lock = lock_home(folder)
    try:
        yield home
    finally:
        os.close(lock)
