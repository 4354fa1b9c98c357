"""The long life that is measured is one that a coordinator goes on from, and that verifies."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.speed.fleet_view.history import FLEET
from benchmarks.speed.ledger_scale.life import Life, life_in
from benchmarks.speed.ledger_scale.run import LIMITS, broken_limits, timed
from fleetledger.coordinator.paths import blob_folder
from fleetledger.coordinator.program.engine import LedgerEngine
from fleetledger.coordinator.program.home_verification import VerifiedHome, verify_home
from fleetledger.coordinator.settings import load

SMALL = Life(devices=9, entries=500)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return life_in(SMALL, tmp_path_factory.mktemp("life"))


def test_a_coordinator_goes_on_from_it(home: Path) -> None:
    engine = LedgerEngine.open(home, load(home).rules)
    try:
        assert engine.ledger.size == SMALL.entries
        assert len(engine.core.state.stages.by_number) > 1
        assert len(engine.core.state.contributions.inputs()) > SMALL.devices
    finally:
        engine.close()


def test_it_verifies_and_is_made_once(home: Path) -> None:
    assert life_in(SMALL, home.parent) == home
    report = verify_home(VerifiedHome(home, blob_folder(home), FLEET))
    assert (report.ok, report.entries) == (True, SMALL.entries), str(report)
    assert report.checkpoints == -(-SMALL.entries // 32)
    assert report.blobs > SMALL.devices


def test_what_takes_longer_than_it_may_is_named() -> None:
    fast = {"entries": 1_000_000} | {name: {"seconds": 0.5} for name, _ in LIMITS}
    assert broken_limits([fast]) == []
    slow = fast | {"open": {"seconds": 3.5}}
    assert broken_limits([slow]) == ["open of 1000000 entries: 3.5 s, at most 3.0"]


def test_a_program_is_timed_and_one_that_fails_ends_it() -> None:
    assert 0 < timed("-c", "pass")["processor_seconds"] < 60
    with pytest.raises(SystemExit, match="no such home"):
        timed("-c", "raise SystemExit('no such home')")
