"""How many blocks are under way, and when they are asked for again."""

import sys
from collections import deque
from types import FrameType

import pytest

from fleetledger.transport.missing_blocks import MissingBlocks
from fleetledger.transport.pacing import Pacer, RequestedBlock

BLOCK = 64 * 1024


def measure(pacer: Pacer, *, rate: float, round_trip: float, blocks: int = 60) -> None:
    """Let blocks arrive one after another over a link of `rate` bytes per second."""
    now = 0.0
    for _ in range(blocks):
        in_flight = pacer.window * pacer.block_size
        elapsed = max(round_trip, in_flight / rate)
        asked = RequestedBlock(now, pacer.delivered - in_flight + pacer.block_size, first=True)
        now += elapsed
        pacer.arrived(pacer.block_size, asked, now)


@pytest.mark.parametrize("rate", [400e3, 1e6, 2.5e6, 20e6])
def test_what_is_under_way_takes_at_most_a_quarter_second_of_the_rate(rate: float) -> None:
    pacer = Pacer(BLOCK)
    measure(pacer, rate=rate, round_trip=0.01)

    assert pacer.rate == pytest.approx(rate, rel=0.2)
    assert (pacer.window - 1) * BLOCK <= 0.25 * rate * 1.2
    assert pacer.window * BLOCK >= 0.25 * rate * 0.5 or pacer.window == 1


def test_a_fast_link_is_bounded_by_memory() -> None:
    pacer = Pacer(BLOCK)
    measure(pacer, rate=1e10, round_trip=1e-4)

    assert pacer.window == 64


def test_a_slow_link_still_has_one_block_under_way() -> None:
    pacer = Pacer(256 * 1024)
    measure(pacer, rate=10e3, round_trip=0.1, blocks=5)

    assert pacer.window == 1


def test_the_retry_waits_three_round_trips_and_at_least_one_and_a_half_seconds() -> None:
    pacer = Pacer(BLOCK)
    assert pacer.retry_after == 1.5
    measure(pacer, rate=1e9, round_trip=0.01)
    assert pacer.retry_after == 1.5
    slow = Pacer(BLOCK)
    measure(slow, rate=1e9, round_trip=2.0)
    assert slow.retry_after == pytest.approx(6.0, rel=0.01)


def test_blocks_asked_for_twice_do_not_enter_the_round_trip() -> None:
    pacer = Pacer(BLOCK)
    pacer.arrived(BLOCK, RequestedBlock(0.0, 0, first=True), 0.1)

    pacer.arrived(BLOCK, RequestedBlock(0.0, 0, first=False), 50.0)

    assert pacer.round_trip == pytest.approx(0.1)


def test_overdue_blocks_come_before_new_ones_and_within_the_window() -> None:
    pacer, wanted = Pacer(BLOCK), MissingBlocks(range(10))

    assert wanted.choose(pacer, 0.0, 64) == [0, 1, 2, 3]
    assert wanted.choose(pacer, 1.4, 64) == []
    assert wanted.next_time(pacer, 1.4) == pytest.approx(1.5)
    assert wanted.arrived(2) is not None
    assert wanted.choose(pacer, 1.4, 64) == [4]
    assert wanted.choose(pacer, 1.5, 64) == [0, 1, 3]
    assert wanted.arrived(9) is None
    assert len(wanted) == 9


def test_what_is_due_at_a_time_is_asked_for_at_that_time() -> None:
    """A loop that lets time pass to `next_time` would otherwise stand still."""
    pacer = Pacer(BLOCK)
    for thousandths in range(1000, 9000):
        asked_at = thousandths / 997
        wanted = MissingBlocks(range(1))
        assert wanted.choose(pacer, asked_at, 1) == [0]
        pacer.round_trip = thousandths / 1013
        assert wanted.choose(pacer, wanted.next_time(pacer, asked_at), 1) == [0]


def test_in_a_narrower_window_the_next_time_is_one_at_which_something_is_asked() -> None:
    wanted, pacer = MissingBlocks(range(4)), Pacer(100)
    assert wanted.choose(pacer, 0.0, 2) == [0, 1]
    assert wanted.choose(pacer, 1.0, 2) == [2, 3]
    pacer.rate = 1.0
    assert pacer.window == 1
    assert wanted.choose(pacer, 1.5, 9) == [], "two are under way, and there is room for one"
    assert wanted.next_time(pacer, 1.5) == 2.5
    assert wanted.choose(pacer, 2.5, 9) == [0]


def test_new_blocks_are_asked_for_several_at_a_time_and_the_last_ones_at_once() -> None:
    pacer, wanted = Pacer(BLOCK), MissingBlocks(range(40))
    pacer.rate = 16 * BLOCK / 0.25
    assert wanted.choose(pacer, 0.0, 64) == list(range(16))
    for index in range(3):
        wanted.arrived(index)
    assert wanted.choose(pacer, 0.1, 64) == []
    assert wanted.next_time(pacer, 0.1) == pytest.approx(1.5)
    wanted.arrived(3)
    assert wanted.next_time(pacer, 0.1) == 0.1
    assert wanted.choose(pacer, 0.1, 64) == [16, 17, 18, 19]
    for index in range(4, 16):
        wanted.arrived(index)
    assert wanted.choose(pacer, 0.2, 64) == list(range(20, 32))
    for index in range(16, 24):
        wanted.arrived(index)
    assert wanted.choose(pacer, 0.3, 64) == list(range(32, 40))


def test_a_request_smaller_than_what_is_worth_asking_for_asks_all_the_same() -> None:
    pacer, wanted = Pacer(4096), MissingBlocks(range(500))
    pacer.rate = 1e9
    assert pacer.window == 1024
    assert wanted.choose(pacer, 0.0, 64) == list(range(64))
    assert wanted.choose(pacer, 0.0, 64) == list(range(64, 128))


class CountingPacer(Pacer):
    """Counts how often it is asked when blocks are asked for again."""

    asked = 0

    @property
    def retry_after(self) -> float:
        self.asked += 1
        return super().retry_after


@pytest.mark.parametrize("block_size", [4 * 1024, BLOCK, 256 * 1024])
def test_what_a_block_costs_does_not_grow_with_what_is_under_way(block_size: int) -> None:
    """The law: calls are linear in blocks, for windows of 16 blocks as for those of 1,024."""
    blocks = 2_000
    pacer, wanted = CountingPacer(block_size), MissingBlocks(range(blocks))
    pacer.rate = 1e9  # as many under way as may be
    under_way: deque[int] = deque()
    now, seen = 0.0, 0

    def count(frame: FrameType, event: str, argument: object) -> None:
        nonlocal seen
        seen += event == "call"

    sys.setprofile(count)
    try:
        while wanted:
            under_way.extend(wanted.choose(pacer, now, 64))
            asked = wanted.arrived(under_way.popleft())
            assert asked is not None
            now = min(now + 1e-4, wanted.next_time(pacer, now))
    finally:
        sys.setprofile(None)

    assert pacer.asked <= 3 * blocks
    assert seen <= 30 * blocks


def test_overdue_blocks_are_asked_for_in_the_order_in_which_they_were_before() -> None:
    pacer, wanted = Pacer(BLOCK), MissingBlocks(range(4))
    assert wanted.choose(pacer, 0.0, 2) == [0, 1]
    assert wanted.choose(pacer, 1.0, 2) == [2, 3]
    assert wanted.choose(pacer, 1.5, 1) == [0]
    assert wanted.choose(pacer, 2.5, 9) == [1, 2, 3]
    assert wanted.next_time(pacer, 2.5) == 3.0, "block 0 was asked for at 1.5"
    wanted.lapse(pacer, 2.6)
    assert wanted.choose(pacer, 2.6, 9) == [0, 1, 2, 3]
