"""Links that are slow and lose packets: what a link does, and a model's way over real ones."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.speed.poor_links import link
from benchmarks.speed.poor_links.run import HERE, NOT_ALLOWED, Ends, allowed, links
from fleetledger.transport.brokers import find_mosquitto


@pytest.fixture
def ends(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[int, int, int, int]]:
    monkeypatch.setattr(link, "JITTER_SECONDS", 0.0)
    pipes = (*os.pipe2(os.O_NONBLOCK | os.O_DIRECT), *os.pipe2(os.O_NONBLOCK | os.O_DIRECT))
    yield pipes
    for one in pipes:
        os.close(one)


def test_packets_come_late_in_their_order_and_at_the_rate_of_the_link(
    ends: tuple[int, int, int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link, "LOSS", 0.0)
    source, given, taken, target = ends
    one = link.Direction(source, target, 10_000, random.Random(1))
    for number in range(3):
        os.write(given, bytes([number]) * 100)
    one.take(5.0)
    assert one.give(5.039) == pytest.approx(5.0 + 0.01 + link.DELAY_SECONDS)
    assert one.give(5.051) == pytest.approx(5.0 + 0.03 + link.DELAY_SECONDS)
    assert [os.read(taken, 200)[0] for _ in range(2)] == [0, 1]
    assert one.give(5.1) == float("inf")
    assert os.read(taken, 200) == bytes([2]) * 100


def test_packets_are_lost_by_chance_and_where_the_queue_is_full(
    ends: tuple[int, int, int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    source, given, _, target = ends
    monkeypatch.setattr(link, "LOSS", 1.0)
    lossy = link.Direction(source, target, 10_000, random.Random(1))
    os.write(given, b"x" * 100)
    lossy.take(0.0)
    assert not lossy.queued
    monkeypatch.setattr(link, "LOSS", 0.0)
    for _ in range(60):
        os.write(given, b"x" * 100)
        lossy.take(0.0)
    assert len(lossy.queued) in {30, 31}, "what takes longer than the queue holds is dropped"


@pytest.mark.nightly
@pytest.mark.broker
@pytest.mark.timeout(300)
@pytest.mark.skipif(find_mosquitto() is None, reason="needs mosquitto on the PATH")
@pytest.mark.skipif(not allowed(), reason=NOT_ALLOWED)
@pytest.mark.parametrize("http", [False, True])
def test_a_model_comes_over_such_links(tmp_path: Path, *, http: bool) -> None:
    with links(2) as names:
        assert Ends(HERE, names, tmp_path).seconds(300_000, http=http) > 300_000 / 2_000_000
