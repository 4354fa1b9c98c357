"""The fleet in one process comes to the sums that the method's sides give by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleetledger.coordinator.ledger.entries import Entry
from fleetledger.simulator.engines.inprocess.engine import InProcessEngine
from tests.simulator.engines.inprocess.small import (
    PART,
    ByHand,
    Quiet,
    fleet_of,
)

FIVE = {"count": 5}


def test_the_exact_form_sums_to_the_digest_of_the_pooled_data(tmp_path: Path, cache: Path) -> None:
    prepared = fleet_of(cache, devices=FIVE)
    engine = InProcessEngine(prepared, tmp_path, Quiet())
    for stage in prepared.plan.stages:
        record = engine.learn(stage)
        assert record.aggregate == ByHand(prepared, engine).pooled(stage.number)
        assert record.contributions == len(
            {*engine._fleet.coordinator.state.contributions.inputs()}
        )
    engine.close()


@pytest.mark.parametrize("form", ["compact", "estimated"])
def test_forms_that_see_the_split_come_to_the_sum_of_the_devices_parts(
    tmp_path: Path, cache: Path, form: str
) -> None:
    # No sample waits for others of its class, so that what a part holds is known by hand.
    settings = {"form": form, "map_width": 64, "max_samples_per_part": PART, "group_minimum": 1}
    prepared = fleet_of(cache, devices=FIVE, method={"name": "stsa", "settings": settings})
    engine = InProcessEngine(prepared, tmp_path / "run", Quiet())
    for stage in prepared.plan.stages:
        record = engine.learn(stage)
        by_hand = ByHand(prepared, engine).by_parts(stage.number, tmp_path / "by-hand")
        assert record.aggregate == by_hand
    engine.close()


def test_payloads_that_are_offered_cross_in_blocks(tmp_path: Path, cache: Path) -> None:
    settings = {"form": "exact", "map_width": 400, "max_samples_per_part": PART}
    method = {"name": "stsa", "settings": settings}
    prepared = fleet_of(cache, devices=FIVE, method=method)
    engine = InProcessEngine(prepared, tmp_path, Quiet())
    for stage in prepared.plan.stages:
        record = engine.learn(stage)
        assert record.aggregate == ByHand(prepared, engine).pooled(stage.number)
        for device in record.devices.values():
            assert device.bytes_up > 65_536
    engine.close()


def test_the_same_seed_gives_the_same_ledger(tmp_path: Path, cache: Path) -> None:
    prepared = fleet_of(cache, "estimated", devices=FIVE)
    ledgers = []
    for name in ("one", "two"):
        engine = InProcessEngine(prepared, tmp_path / name, Quiet())
        for stage in prepared.plan.stages:
            engine.learn(stage)
        ledgers.append([_timeless(e) for e in engine._fleet.coordinator.engine.ledger.entries()])
        engine.close()
    assert ledgers[0] == ledgers[1]


def _timeless(entry: Entry) -> tuple[object, ...]:
    """An entry without the real seconds that a solve took."""
    body = {name: value for name, value in entry.body.items() if name != "seconds"}
    return entry.index, entry.kind, entry.actor, entry.device, entry.time_ns, body
