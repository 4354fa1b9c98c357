"""What threads hash is what would be hashed here, in the order of the lots, as it is."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import Future

import numpy as np
import pytest

from fleetledger.schemas.envelope import INLINE_LIMIT
from fleetledger.schemas.values import Digest
from fleetledger.simulator.engines.inprocess.light.answer_hasher import (
    AnswerHasher,
    HashedAnswer,
    Turns,
)

LARGE = 1_200_000


def bodies(seed: int, count: int, size: int) -> list[bytes]:
    drawn = np.random.default_rng(seed).integers(0, 16, (count, size), np.uint8)
    return [row.tobytes() for row in drawn]


def expected(lot: list[bytes]) -> list[HashedAnswer]:
    return [HashedAnswer(Digest.of(body), len(body)) for body in lot]


@pytest.fixture
def hasher(monkeypatch: pytest.MonkeyPatch) -> Iterator[AnswerHasher]:
    """Give a hasher on a machine with three cores."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2})
    made = AnswerHasher()
    yield made
    made.close()


def test_lots_of_threads_and_of_this_one_come_back_in_order(hasher: AnswerHasher) -> None:
    lots = [bodies(number, 3, LARGE + number) for number in range(4)]
    lots += [bodies(20, 2, 400_000), bodies(21, 3, 10), bodies(22, 1, LARGE)]
    for lot in lots:
        hasher.hash(lot)
    found = [hasher.take() for _ in lots]
    assert found == [expected(lot) for lot in lots]
    for item in (item for lot in found for item in lot):
        assert (item.offer is not None) == (item.size > INLINE_LIMIT)


def test_few_bodies_wait_for_threads_and_the_others_are_hashed_at_once(
    hasher: AnswerHasher,
) -> None:
    lot = bodies(1, 12, LARGE)
    for _ in range(3):
        hasher.hash(lot)
        waiting = [item for some in hasher._lots for item in some if isinstance(item, Future)]
        assert waiting
        assert sum(not item.done() for item in waiting) <= 4
    while hasher._lots:
        assert hasher.take() == expected(lot)


def test_small_answers_start_no_thread(hasher: AnswerHasher) -> None:
    lot = bodies(1, 32, 40_000)
    hasher.hash(lot)
    assert hasher.is_ready
    assert hasher.take() == expected(lot)
    assert hasher._pool is None


def test_one_core_hashes_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0})
    hasher, lot = AnswerHasher(), bodies(1, 2, LARGE)
    hasher.hash(lot)
    assert hasher.take() == expected(lot)
    assert hasher._pool is None


@pytest.mark.parametrize("cores", [{0}, {0, 1}], ids=["one core", "two cores"])
def test_works_are_done_in_turn(cores: set[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: cores)
    turns, done = Turns(), list[int]()
    for number in range(20):
        turns.do(lambda number=number: done.append(number))
        assert len(done) >= number - 1, "two may wait"
    turns.wait()
    assert done == list(range(20))
    turns.close()


def test_what_a_work_raises_is_raised_by_a_later_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    turns = Turns()
    turns.do([].pop)
    with pytest.raises(IndexError):
        turns.wait()
    turns.close()
