"""The history that the dashboard is measured on is one that a ledger holds, and pages are found."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.speed.fleet_view.dashboard import addresses, dashboard
from benchmarks.speed.fleet_view.history import History, home_with
from benchmarks.speed.fleet_view.presence import presence
from benchmarks.speed.fleet_view.run import (
    Plan,
    broken_limits,
    measure_pages,
    measure_streams,
    summary,
)
from fleetledger.coordinator.dashboard.pages import PAGES
from fleetledger.coordinator.ledger.reader import ledger_of
from fleetledger.coordinator.program.engine import LedgerEngine
from fleetledger.coordinator.reports.old_and_new_classes import correct_ratios
from fleetledger.coordinator.settings import load

SMALL = History(devices=12, entries=400, senders=2)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return home_with(SMALL, tmp_path_factory.mktemp("history"))


def test_a_coordinator_goes_on_from_the_history(home: Path) -> None:
    engine = LedgerEngine.open(home, load(home).rules)
    try:
        assert engine.ledger.size == SMALL.entries
        assert len(engine.core.state.devices.admitted) == SMALL.devices
    finally:
        engine.close()


def test_it_is_made_once_and_holds_what_pages_show(home: Path) -> None:
    assert home_with(SMALL, home.parent) == home
    with ledger_of(home) as ledger:
        ratios = correct_ratios(ledger, 3)
    assert ratios.old is not None
    assert ratios.new is not None


def test_every_page_has_an_address_with_its_parts_filled_in() -> None:
    found = addresses(SMALL.names[-1], SMALL.entries)
    assert len(found) == 2 * (len(PAGES) - 2) + 2  # all but those of a round and of a rollout
    assert not [path for path in found if "{" in path]


def test_a_dashboard_is_measured_while_something_happens(tmp_path: Path) -> None:
    home = home_with(SMALL, tmp_path)
    plan = Plan(1, streams=3, stream_seconds=0.1, rounds=0, parts=1, window=1, viewers=0)
    paths = addresses(SMALL.names[-1], SMALL.entries)
    with presence(home, SMALL), dashboard(home) as served:
        assert set(measure_pages(served, paths, 1)) == set(paths)
        found = measure_streams(served, plan)
    assert found["broken"] == 0
    assert found["received_bytes"] > 0
    assert found["memory_mib"] > 10


def test_what_is_beyond_a_limit_is_named() -> None:
    found = {
        "first_byte_ms": {"/": {"median": 301, "max": 400}, "/fleet.json": {"median": 20}},
        "memory_mib_after_pages": 121,
        "streams": {"memory_mib": 100, "core": 0.05, "broken": 0},
        **summary([{"with": 90.0, "without": 100.0}, {"with": 94.0, "without": 100.0}]),
    }
    assert broken_limits(found) == [
        "/: first byte after 301 ms (median)",
        "121 MiB after all pages, at most 120",
        "0.08 of the rate lost, at most 0.05",
    ]
