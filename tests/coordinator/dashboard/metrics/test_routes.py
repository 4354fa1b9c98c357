"""`/metrics`, `/livez` and `/readyz`, asked over HTTP."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx
import pytest
from starlette.applications import Starlette

from fleetledger.coordinator.core.state_fold import StateKeeper
from fleetledger.coordinator.dashboard.metrics.routes import Metered, metric_routes
from fleetledger.coordinator.live.snapshot import LiveSnapshot
from fleetledger.coordinator.paths import ledger_path
from tests.coordinator.dashboard.metrics.scraping import (
    COORDINATOR,
    FULL,
    LIVE,
    NOW_NS,
    make_home,
    samples,
)


def ask(home: Path, path: str, *, later_ns: int = 0, accept: str = "") -> httpx.Response:
    """Ask an application that has the three routes only."""
    app = Starlette(
        routes=metric_routes(Metered(StateKeeper(home), lambda: NOW_NS + later_ns, "stsa"))
    )

    async def get() -> httpx.Response:
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://here") as client:
            return await client.get(path, headers={"accept": accept})

    return asyncio.run(get())


def failed(home: Path, later_ns: int = 0) -> dict[str, str]:
    """Return the checks that fail, and why."""
    answer = ask(home, "/readyz", later_ns=later_ns)
    checks = answer.json()["checks"]
    found = {check["name"]: check["text"] for check in checks if not check["ok"]}
    assert answer.json()["ready"] == (not found)
    assert answer.status_code == (503 if found else 200)
    return found


def with_coordinator(**changes: object) -> LiveSnapshot:
    return LIVE.model_copy(update={"coordinator": COORDINATOR.model_copy(update=changes)})


def test_metrics_are_served_with_their_type(tmp_path: Path) -> None:
    answer = ask(make_home(tmp_path), "/metrics")
    assert answer.headers["content-type"].startswith("application/openmetrics-text")
    assert samples(answer.text)["outbox_messages"] == 3
    assert ask(tmp_path, "/metrics", accept="text/plain").text.startswith("# HELP fleetledger_info")


def test_without_a_ledger_there_are_no_metrics_and_the_process_lives(tmp_path: Path) -> None:
    answer = ask(tmp_path, "/metrics")
    assert answer.status_code == 503
    assert "no ledger there" in answer.text
    assert ask(tmp_path, "/livez").status_code == 200
    assert list(failed(tmp_path)) == ["ledger", "coordinator"]


def test_a_coordinator_that_serves_is_ready(tmp_path: Path) -> None:
    home = make_home(tmp_path)
    assert failed(home) == {}
    texts = [check["text"] for check in ask(home, "/readyz").json()["checks"]]
    assert texts[1:] == ["serves; said so 1 s ago", "connected", "nothing was refused"]


@pytest.mark.parametrize(
    ("changes", "check", "text"),
    [
        ({"stopped": True}, "coordinator", "ended in order; said so 1 s ago"),
        ({"connected": False, "connection": "refused: bad password"}, "broker", "bad password"),
        ({"connected": False}, "broker", "not connected to the broker"),
        ({"problems": (FULL,)}, "commit", str(FULL)),
    ],
)
def test_what_is_not_well_is_said_in_words(
    tmp_path: Path, changes: dict[str, object], check: str, text: str
) -> None:
    assert text in failed(make_home(tmp_path, with_coordinator(**changes)))[check]


def test_a_coordinator_that_has_not_written_for_long_is_not_ready(tmp_path: Path) -> None:
    found = failed(make_home(tmp_path), later_ns=60 * 10**9)
    assert found["coordinator"] == "does not serve, or is not well; said so 1 min ago"
    assert found["broker"] == "unknown, since no coordinator serves"


def test_a_damaged_ledger_is_not_ready(tmp_path: Path) -> None:
    home = make_home(tmp_path)
    ledger_path(home).write_bytes(b"x" * 5000)
    assert list(failed(home)) == ["ledger"]
