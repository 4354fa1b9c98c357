"""Needs of the test fleets: each has a key of its own, by which a page finds it again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from fleetledger.coordinator.ledger.reader import ledger_of
from fleetledger.coordinator.live.file import read_live
from fleetledger.coordinator.reports.fleet import fleet_now
from tests.coordinator.dashboard.chromium import fleets


@pytest.mark.parametrize("make", fleets.FLEETS[1:], ids=lambda make: make.__name__)
def test_no_two_needs_of_a_fleet_have_one_key(
    make: Callable[[Path], fleets.Fleet], tmp_path: Path
) -> None:
    fleet = make(tmp_path / "home")
    with ledger_of(fleet.home) as ledger:
        found = fleet_now(ledger, read_live(fleet.home), fleet.now_ns).needs
    assert found
    assert max(Counter(need.key for need in found).values()) == 1
