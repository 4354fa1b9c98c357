"""A dashboard over a coordinator's home that a test makes, asked without a network."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from starlette.testclient import TestClient

from fleetledger.coordinator.dashboard.app import make_app
from fleetledger.coordinator.settings import CoordinatorSettings, write_new
from fleetledger.schemas.values import FleetId
from fleetledger.transport.pages.doors import Doors
from fleetledger.transport.pages.people import Person, Role
from tests.coordinator.dashboard.metrics.scraping import NOW_NS, make_home

ADDRESS = "http://127.0.0.1:8787"


def settled(home: Path) -> Path:
    """Write the settings of a coordinator."""
    write_new(home, CoordinatorSettings(fleet=FleetId("orchard")))
    return home


def a_fleet(home: Path) -> Path:
    """Write settings, a ledger of two devices, and what is known of them just now."""
    return settled(make_home(home))


def browser(
    home: Path,
    *,
    role: Role | None = Role.VIEWER,
    now_ns: Callable[[], int] = lambda: NOW_NS,
    **settings: Any,
) -> TestClient:
    """Return the browser of somebody who came in at the dashboard over `home`; None: of nobody."""
    app = make_app(home, now_ns=now_ns, **settings)
    client = TestClient(
        app, base_url=ADDRESS, raise_server_exceptions=False, follow_redirects=False
    )
    if role is not None:
        doors: Doors = app.state.doors
        client.cookies.set(doors.cookie, doors.sessions.make(Person("ana", role), now_ns()))
    return client
