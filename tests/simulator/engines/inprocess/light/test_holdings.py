"""What devices hold is put together once, and again when it may have changed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fleetledger.schemas.rounds import RoundOrder
from fleetledger.schemas.values import DeviceId
from fleetledger.simulator.engines.inprocess.light import holdings
from fleetledger.simulator.engines.inprocess.light.holdings import HeldRows, Holdings
from fleetledger.simulator.engines.network_inputs import inputs_of
from tests.simulator.rounds.small import prepared, small

WHAT = prepared(small())
DEVICE, OTHER = DeviceId("device-1"), DeviceId("device-2")
NAMES = WHAT.split.train.class_names
ORDER = RoundOrder.model_construct(class_names=NAMES, aliases={})


def made() -> tuple[Holdings, HeldRows]:
    held = Holdings(WHAT.split.train, WHAT.plan, inputs_of(WHAT), "images")
    held.bring({DEVICE: [(1, np.arange(5))], OTHER: [(1, np.arange(5, 9))]})
    return held, HeldRows.of(ORDER, NAMES)


def test_data_are_the_same_object_until_something_is_brought_or_asked_otherwise() -> None:
    held, rows = made()
    first = held.data(DEVICE, rows)
    assert first is not None
    assert held.data(DEVICE, HeldRows.of(ORDER, NAMES)) is first  # of another round
    one = held.data(DEVICE, replace(rows, names=(rows.names[0], *[None] * (len(NAMES) - 1))))
    assert one is None or set(one.class_names) == {NAMES[0]}
    again = held.data(DEVICE, rows)
    assert again is not None
    assert np.array_equal(again.inputs, first.inputs)
    held.bring({DEVICE: [(1, np.arange(7))]})
    more = held.data(DEVICE, rows)
    assert more is not None
    assert len(more) == len(first) + 2


def test_what_there_is_no_room_for_is_put_together_again(monkeypatch: pytest.MonkeyPatch) -> None:
    held, rows = made()
    size = held.data(DEVICE, rows)
    assert size is not None
    monkeypatch.setattr(holdings, "_KEPT_BYTES", size.inputs.nbytes)
    held, rows = made()
    kept, other = held.data(DEVICE, rows), held.data(OTHER, rows)
    assert held.data(DEVICE, rows) is kept
    assert other is not None
    anew = held.data(OTHER, rows)
    assert anew is not other
    assert anew is not None
    assert np.array_equal(anew.inputs, other.inputs)
