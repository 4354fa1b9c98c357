"""What the engine can tell of the time that a stage took."""

from __future__ import annotations

import pytest

from fleetledger.simulator.engines.mqtt.meter import phases
from tests.simulator.engines.hand_made import HandMadeLedger


def test_solving_and_exporting_are_told_apart_from_the_rest():
    ledger = HandMadeLedger()
    ledger.begin()
    ledger.learn(1)
    ledger.learn(2)
    assert phases(ledger.state, (2,), 9.0) == {
        "solve": 0.25,
        "export": 1.0,
        "fleet": pytest.approx(7.75),
        "total": 9.0,
    }
