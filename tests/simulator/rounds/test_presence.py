"""Devices that are late, drop out of a round, or join in the middle of a stage."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleetledger.coordinator.topics.rounds.entries import RoundClosed
from fleetledger.schemas.values import DeviceId
from fleetledger.simulator.engines.inprocess.engine import InProcessEngine
from fleetledger.simulator.engines.presence import delivered
from tests.simulator.engines.inprocess.small import changed
from tests.simulator.rounds.small import learn, prepared, small

pytestmark = pytest.mark.torch

THIRD = DeviceId("device-3")


def counted(records) -> list[tuple[int, int]]:
    return [(item.asked, item.counted) for item in records[0].rounds]


def test_a_late_answer_is_left_out_of_its_round(tmp_path: Path) -> None:
    what = prepared(small(rounds={"per_stage": 3, "deadline_seconds": 15.0}))

    def slow(engine: InProcessEngine, done: int) -> None:
        """Let the third be busy while the second round closes."""
        if done == 1 and engine._fleet.coordinator.state.stages.current == 1:
            loop, device = engine._fleet.world.loop, engine._fleet.device(THIRD)
            loop.at(loop.clock.now + 5, lambda: device.keep_busy(loop.clock.now + 16))

    records, ledger = learn(what, tmp_path, slow)
    assert counted(records)[:2] == [(3, 3), (3, 2)]
    closed = [body for body in ledger if isinstance(body, RoundClosed)]
    assert closed[1].missing == (THIRD,)
    assert "deadline" in closed[1].reason


def test_a_device_that_drops_out_of_a_round_comes_back_into_another(tmp_path: Path) -> None:
    what = prepared(small(rounds={"per_stage": 4, "deadline_seconds": 30.0}))

    def fail(engine: InProcessEngine, done: int) -> None:
        if engine._fleet.coordinator.state.stages.current != 1:
            return
        loop, device = engine._fleet.world.loop, engine._fleet.device(THIRD)
        if done == 1:
            loop.at(loop.clock.now + 5, device.stop)
        elif done == 2:
            device.start()

    records, ledger = learn(what, tmp_path, fail)
    assert counted(records)[:2] == [(3, 3), (3, 2)]
    assert counted(records)[-1] == (3, 3)
    closed = [body for body in ledger if isinstance(body, RoundClosed)]
    assert closed[1].missing == (THIRD,)


def test_a_device_that_joins_in_the_middle_of_a_stage_is_asked_from_then_on(
    tmp_path: Path,
) -> None:
    what = prepared(small(rounds={"per_stage": 4}))
    plan = changed(what.plan, 1, device_3={"online": False})

    def join(engine: InProcessEngine, done: int) -> None:
        if done == 2 and not engine._fleet.device(THIRD).on:
            engine._fleet.switch_on(THIRD, delivered(plan, THIRD, 1))

    records, _ = learn(prepared(small(rounds={"per_stage": 4}), plan), tmp_path, join)
    assert counted(records)[0] == (2, 2)
    assert counted(records)[-1] == (3, 3)


def test_a_device_that_is_away_for_a_stage_trains_in_the_next(tmp_path: Path) -> None:
    what = prepared(small())
    plan = changed(what.plan, 1, device_3={"online": False})
    records, _ = learn(prepared(small(), plan), tmp_path)
    assert [(item.asked, item.counted) for r in records for item in r.rounds] == [
        *[(2, 2)] * 3,
        *[(3, 3)] * 3,
    ]
    assert records[0].devices[THIRD].counted_samples == 0


def test_training_that_leaves_the_numbers_is_told_and_left_out(tmp_path: Path) -> None:
    what = prepared(small(method={"settings": {"rate": 1e30}}, rounds={"per_stage": 1}))
    from fleetledger.simulator.errors import EngineError

    with pytest.raises(EngineError, match=r"stage 1 asks nothing more: .* more than 512"):
        learn(what, tmp_path)
