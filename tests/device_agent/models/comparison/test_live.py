"""Of what applications show, a bounded sample stays on the device for a while."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from fleetledger.device_agent.errors import StoreError
from fleetledger.device_agent.models.comparison.live import LiveLimits, LiveSample

LIMITS = LiveLimits(images=3, interval_seconds=60.0, bytes=100, age_seconds=86_400)


class Clock:
    def __init__(self) -> None:
        self.now = 1_700_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def sample(tmp_path: Path, clock: Clock) -> LiveSample:
    return LiveSample(tmp_path / "live", LIMITS, clock)


def shown(sample: LiveSample) -> list[bytes]:
    return [path.read_bytes() for path in sample.images()]


def test_the_newest_stay_one_in_an_interval(sample: LiveSample, clock: Clock) -> None:
    kept = []
    for second in range(600):
        if sample.offer(b"%d" % second):
            kept.append(second)
        clock.now += 1
    gaps = [later - earlier for earlier, later in pairwise(kept)]
    assert min(gaps) >= 30
    assert max(gaps) <= 90
    assert len(set(gaps)) > 1
    assert shown(sample) == [b"%d" % second for second in reversed(kept[-3:])]


def test_the_oldest_go_where_bytes_run_out(sample: LiveSample, clock: Clock) -> None:
    for letter in (b"a", b"b", b"c"):
        assert sample.offer(letter * 45)
        clock.now += 200
    assert shown(sample) == [b"c" * 45, b"b" * 45]
    assert not sample.offer(b"d" * 101)
    assert len(shown(sample)) == 2


def test_what_is_too_old_is_not_used_and_goes(sample: LiveSample, clock: Clock) -> None:
    assert sample.offer(b"old")
    clock.now += 86_401
    assert shown(sample) == []
    assert sample.offer(b"new")
    assert [path.read_bytes() for path in sample.folder.iterdir()] == [b"new"]


def test_what_a_crash_has_left_goes(sample: LiveSample) -> None:
    sample.folder.mkdir()
    (sample.folder / "17.new").write_bytes(b"half")
    assert shown(sample) == []
    assert sample.offer(b"whole")
    assert len(list(sample.folder.iterdir())) == 1


def test_a_clock_that_went_back_stops_nothing(sample: LiveSample, clock: Clock) -> None:
    assert sample.offer(b"tomorrow")
    clock.now -= 40_000
    assert sample.offer(b"today")
    assert shown(sample) == [b"today"]


def test_a_disk_that_refuses_is_told_once_in_an_interval(tmp_path: Path, clock: Clock) -> None:
    (tmp_path / "live").write_bytes(b"no folder")
    sample = LiveSample(tmp_path / "live", LIMITS, clock)
    with pytest.raises(StoreError, match="live: a live image cannot be kept"):
        sample.offer(b"a")
    assert not sample.offer(b"b")
