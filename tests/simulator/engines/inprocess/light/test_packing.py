"""What programs beside this one pack is what would be packed here, in the order of the lots."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

import numpy as np
import pytest

from schemas.envelope import INLINE_LIMIT
from schemas.tensors import compressed
from schemas.values import Digest
from simulator.engines.inprocess.light.packing import LOTS_AT_ONCE, Packed, Packer
from simulator.engines.inprocess.light.programs import Program
from simulator.errors import EngineError


def bodies(seed: int, count: int, size: int) -> list[bytes]:
    """Return noise in half of the bits, so that it can be packed."""
    drawn = np.random.default_rng(seed).integers(0, 16, (count, size), np.uint8)
    return [row.tobytes() for row in drawn]


def expected(lot: list[bytes]) -> list[Packed]:
    """Pack a lot as an agent does."""
    payloads = map(compressed, lot)
    return [Packed(Digest.of(payload), len(payload)) for payload in payloads]


@pytest.fixture
def packer(monkeypatch: pytest.MonkeyPatch) -> Iterator[Packer]:
    """Give a packer on a machine with three cores."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2})
    made = Packer()
    yield made
    made.close()


def test_lots_of_several_programs_and_of_this_one_come_back_in_order(packer: Packer) -> None:
    lots = [bodies(number, 9, 40_000 + number) for number in range(12)]
    lots += [bodies(20, 2, 400_000), bodies(21, 3, 10), bodies(22, 1, 1_000_000)]
    for lot in lots:
        packer.pack(lot)
    found = [packer.take() for _ in lots]
    assert found == [expected(lot) for lot in lots]
    for item in (item for lot in found for item in lot):
        assert (item.offer is not None) == (item.size > INLINE_LIMIT)


def test_programs_have_few_lots_at_a_time_and_get_more_when_they_are_done(packer: Packer) -> None:
    lot = bodies(1, 9, 40_000)
    programs = []
    for _ in range(8):
        packer.pack(lot)
        programs = [item for item in packer._lots if isinstance(item, Program)]
        assert len(programs) <= 2 * LOTS_AT_ONCE or any(item.is_ready for item in programs)
    assert len(set(programs)) == 2
    while packer._lots:
        packer.take()
    packer.pack(lot)
    assert not isinstance(packer._lots[0], list)
    while not packer.is_ready:
        time.sleep(0.001)
    assert packer.take() == expected(lot)


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
    for program in packer._programs:
        program._process.kill()
        program._process.wait()
    packer.pack(bodies(2, 9, 40_000))
    with pytest.raises(EngineError, match="packing: a program of this run has ended with status"):
        packer.take()
