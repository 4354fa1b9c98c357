"""A heartbeat says what the device has heard; what a broker lost is told again."""

from __future__ import annotations

from typing import Any

import pytest

from fleetledger.coordinator.core.assignments import action_for
from fleetledger.coordinator.core.requests import AnnounceCoordinator, Request
from fleetledger.schemas.assignments import Assignment
from fleetledger.schemas.contributions import held_digest
from fleetledger.schemas.models import DesiredModel
from fleetledger.schemas.presence import Death, Heartbeat, Welcome
from fleetledger.schemas.values import DeviceId
from tests.coordinator.core.harness import Bench, sent
from tests.coordinator.topics.models.test_models import with_model


def beat(
    bench: Bench,
    *,
    welcomed: bool = True,
    assignment: int | None,
    desired: int | None,
    **details: Any,
) -> list[Request]:
    return bench.message(
        "dev-1",
        Heartbeat(
            welcomed=welcomed,
            assignment_action=assignment,
            desired_action=desired,
            waiting_images=0,
            resident_bytes=1,
            bytes_up=0,
            bytes_down=0,
            **{"outbox_length": 0, **details},
        ),
    )


@pytest.fixture
def bench() -> Bench:
    return with_model()


def actions(bench: Bench) -> tuple[int, int]:
    state = bench.core.state
    assert state.models.desired is not None
    return action_for(state, DeviceId("dev-1")), state.models.desired.action


def test_a_device_that_has_heard_everything_is_told_nothing(bench: Bench) -> None:
    assignment, desired = actions(bench)
    assert beat(bench, assignment=assignment, desired=desired) == []


def test_a_lost_assignment_is_sent_again(bench: Bench) -> None:
    _, desired = actions(bench)
    for known in (None, 0):
        requests = beat(bench, assignment=known, desired=desired)
        assert len(sent(requests, Assignment)) == 1
        assert sent(requests, DesiredModel) == []


def test_a_device_that_knows_of_other_parts_than_are_held_is_welcomed_again(bench: Bench) -> None:
    """A letter of an earlier installation was accepted after the birth of this one."""
    assignment, desired = actions(bench)
    held = bench.core.state.contributions.of(DeviceId("dev-1")).held_parts()
    assert held
    heard = {"assignment": assignment, "desired": desired}
    assert beat(bench, **heard, held=held_digest(held)) == []
    (welcome,) = sent(beat(bench, **heard, held=held_digest([])), Welcome)
    assert welcome.held == tuple(held)
    assert beat(bench, **heard, held=held_digest([]), outbox_length=1) == [], "not yet at rest"


def test_a_lost_desired_model_is_sent_again(bench: Bench) -> None:
    assignment, _ = actions(bench)
    requests = beat(bench, assignment=assignment, desired=None)
    assert len(sent(requests, DesiredModel)) == 1
    assert sent(requests, Assignment) == []


def test_a_device_whose_death_arrives_after_its_return_is_told_again_what_it_lacks(
    bench: Bench,
) -> None:
    """The broker tells the death of a connection that the same run of the agent has replaced."""
    bench.message("dev-1", Death(reason="connection lost"))
    assert bench.core.live.device(DeviceId("dev-1")).boot is None
    assignment, desired = actions(bench)
    assert len(sent(beat(bench, assignment=None, desired=desired), Assignment)) == 1
    assert beat(bench, assignment=assignment, desired=desired) == []
    assert bench.core.live.device(DeviceId("dev-1")).boot is not None


def test_a_device_is_told_what_it_lacks_also_after_the_birth_of_an_earlier_run_came_late(
    bench: Bench,
) -> None:
    now = bench.senders[DeviceId("dev-1")]
    bench.born("dev-1")
    bench.senders[DeviceId("dev-1")] = now
    _, desired = actions(bench)
    assert len(sent(beat(bench, assignment=None, desired=desired), Assignment)) == 1


def test_a_device_without_a_welcome_hears_that_the_coordinator_is_there(bench: Bench) -> None:
    requests = beat(bench, welcomed=False, assignment=None, desired=None)
    assert [type(request) for request in requests] == [AnnounceCoordinator]


def test_a_device_whose_birth_was_lost_hears_that_the_coordinator_is_there(bench: Bench) -> None:
    bench.core.live.devices.clear()
    requests = beat(bench, assignment=None, desired=None)
    assert [type(request) for request in requests] == [AnnounceCoordinator]
