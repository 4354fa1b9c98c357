"""Pages asked over ledgers that tests make: a story becomes a home, and answers become JSON."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from starlette.testclient import TestClient

from tests.coordinator.core.harness import Bench
from tests.coordinator.dashboard.served import browser, settled
from tests.coordinator.reports.test_views import write


def home_of(folder: Path, bench: Bench) -> Path:
    """Write a coordinator's home with the entries of a bench."""
    write(folder, bench)
    return settled(folder)


def told(client: TestClient, path: str) -> dict[str, Any]:
    """Return what a page says as JSON."""
    answer = client.get(path, headers={"accept": "application/json"})
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def page_of(folder: Path, bench: Bench, path: str) -> dict[str, Any]:
    """Return what a page says of a bench; it can be drawn, too."""
    client = browser(home_of(folder, bench))
    drawn = client.get(path, headers={"accept": "text/html"})
    assert drawn.status_code == 200, drawn.text
    return told(client, path)
