"""A ledger that cannot be written now and then, beside all other troubles, changes nothing."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from fleetledger.coordinator.errors import LedgerWriteError
from fleetledger.coordinator.ledger.store import Ledger
from tests.chaos.trials import Trials


@pytest.mark.nightly
def test_groups_that_the_disk_refuses_are_committed_later(
    trials: Trials, monkeypatch: pytest.MonkeyPatch
) -> None:
    for seed in filter(trials.can_run, range(trials.fleets)):
        trials.prepared(seed)
    append, dice, refused = Ledger.append, Random(0), []

    def refusing(self: Ledger, group: Any, small_blobs: Any = None, pruned: Any = None) -> Any:
        if group and dice.random() < 0.2:
            refused.append(len(group))
            raise LedgerWriteError("the disk is full")
        return append(self, group, small_blobs, pruned)

    monkeypatch.setattr(Ledger, "append", refusing)
    seeds = filter(trials.can_run, range(trials.fleets))
    broken = [broken for seed in seeds for broken in trials.run(seed).broken]
    assert not broken
    assert len(refused) > 5 * trials.fleets
