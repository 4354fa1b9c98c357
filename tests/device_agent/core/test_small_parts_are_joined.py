"""Images that come one by one go into few parts, through the real rules and the real store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.device_agent.core.driving import Driven

HOUR = 3600.0
DAY = 24 * HOUR


@pytest.fixture
def camera(tmp_path: Path) -> Iterator[Driven]:
    """A device with the pauses of the settings, that has given the first part of stage 1."""
    agent = Driven(tmp_path / "agent.db", pause_seconds=60.0, longest_pause_seconds=DAY)
    agent.put(i0="cat/0")
    agent.connect()
    agent.assign("cat", per_part=50)
    agent.compute("0")
    yield agent
    agent.store.close()


def shoot(camera: Driven, number: int) -> None:
    """Let one more image come."""
    camera.disk[f"i{number}"] = ("cat", str(number))
    camera.scan()
    if camera.job() is not None:
        camera.compute(f"payload {number}")


def parts(camera: Driven) -> int:
    return len(camera.state.records.parts)


def test_the_second_image_waits_for_a_pause_and_goes_with_what_came_meanwhile(
    camera: Driven,
) -> None:
    shoot(camera, 1)
    shoot(camera, 2)
    assert parts(camera) == 1
    camera.wait(60)
    assert len(camera.contents_of_job()) == 2
    camera.compute("more")
    shoot(camera, 3)
    camera.wait(100)
    assert camera.job() is None, "the next pause is twice as long"
    camera.wait(20)
    assert camera.job() is not None


def test_an_image_an_hour_makes_a_part_a_day(camera: Driven) -> None:
    days = 30
    for number in range(1, 24 * days):
        camera.now += HOUR
        shoot(camera, number)
    assert days - 2 <= parts(camera) <= days + 11
    (counted,) = camera.state.records.counted.values()
    assert 24 * days - 24 <= len(counted) <= 24 * days


def test_images_that_fill_a_part_wait_for_nothing_and_neither_do_those_left_over(
    camera: Driven,
) -> None:
    for number in range(1, 51):
        camera.disk[f"i{number}"] = ("cat", str(number))
    camera.disk["i51"] = ("cat", "51")
    camera.scan()
    assert len(camera.contents_of_job()) == 50
    camera.compute("full")
    assert len(camera.contents_of_job()) == 1
    camera.compute("left over")
    shoot(camera, 52)
    assert parts(camera) == 3, "it waits again"


def test_the_first_part_of_a_stage_and_of_a_run_is_given_at_once(camera: Driven) -> None:
    shoot(camera, 1)
    assert parts(camera) == 1
    camera.assign("cat", "dog", stage=2, action=2, per_part=50)
    assert camera.contents_of_job() == {"cat/i1": "cat"}
    camera.compute("of stage 2")
    shoot(camera, 2)
    assert parts(camera) == 2
    camera.kill()
    camera.connect()
    camera.assign("cat", "dog", stage=2, action=2, per_part=50)
    assert camera.contents_of_job() == {"cat/i2": "cat"}
