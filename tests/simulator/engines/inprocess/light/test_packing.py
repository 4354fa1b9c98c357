"""What programs beside this one pack is what would be packed here, in the order of the lots."""

from __future__ import annotations

import os
from collections.abc import Iterator

import numpy as np
import pytest

from schemas.envelope import INLINE_LIMIT
from schemas.tensors import compressed
from schemas.values import Digest
from simulator.engines.inprocess.light.packing import Packed, Packer
from simulator.errors import EngineError
from transport.block_source import BlockSource


def bodies(seed: int, count: int, size: int) -> list[bytes]:
    """Return noise in half of the bits, so that it can be packed."""
    drawn = np.random.default_rng(seed).integers(0, 16, (count, size), np.uint8)
    return [row.tobytes() for row in drawn]


def expected(lot: list[bytes]) -> list[Packed]:
    """Pack a lot as an agent does."""
    found = []
    for body in lot:
        payload = compressed(body)
        large = len(payload) > INLINE_LIMIT
        offer = BlockSource(payload).offer if large else None
        found.append(Packed(Digest.of(payload), len(payload), offer))
    return found


@pytest.fixture
def packer(monkeypatch: pytest.MonkeyPatch) -> Iterator[Packer]:
    """Give a packer on a machine with three cores."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2})
    made = Packer()
    yield made
    made.close()


def test_lots_of_several_programs_come_back_in_order(packer: Packer) -> None:
    lots = [bodies(number, 9, 40_000 + number) for number in range(12)]
    lots += [bodies(20, 2, 400_000), bodies(21, 3, 10), bodies(22, 1, 1_000_000)]
    found = []
    for number, lot in enumerate(lots):
        packer.pack(lot)
        if number >= packer.ahead:
            found.append(packer.take())
    found += [packer.take() for _ in range(packer.ahead)]
    assert found == [expected(lot) for lot in lots]
    assert any(item.offer for lot in found for item in lot)
    assert len(packer._programs) == 2


def test_few_small_answers_start_no_program(packer: Packer) -> None:
    lot = bodies(1, 3, 1000)
    packer.pack(lot)
    assert packer.take() == expected(lot)
    assert not packer._programs


def test_one_core_packs_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0})
    packer, lot = Packer(), bodies(1, 9, 40_000)
    packer.pack(lot)
    assert packer.take() == expected(lot)
    assert not packer._programs


def test_a_program_that_has_ended_is_told_of(packer: Packer) -> None:
    packer.pack(bodies(1, 9, 40_000))
    packer.take()
    packer._programs[1]._process.kill()
    packer._programs[1]._process.wait()
    packer.pack(bodies(2, 9, 40_000))
    with pytest.raises(EngineError, match="packing: a program of this run has ended with status"):
        packer.take()
