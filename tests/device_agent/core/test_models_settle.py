"""When a device may switch, and when it says that a model has settled."""

from pathlib import Path
from typing import Any

import pytest

from fleetledger.device_agent.core import inputs, settling
from fleetledger.device_agent.core.records import ActiveModel
from fleetledger.device_agent.core.requests import (
    InstallModel,
    ReadLocalClock,
    ReadThrottling,
    ShadowModel,
)
from fleetledger.device_agent.program.status import describe_model
from fleetledger.schemas.models import ModelStatus
from fleetledger.schemas.rollouts import LocalHours
from tests.device_agent import making
from tests.device_agent.core.driving import Driven

TWO = ActiveModel(2, making.digest("manifest 2"))
NIGHT = LocalHours(begins=22 * 60, ends=4 * 60)


@pytest.fixture
def agent(tmp_path: Path) -> Driven:
    driven = Driven(tmp_path / "agent.db", deadline_seconds=50_000.0)
    driven.connect()
    return driven


def want(agent: Driven, action: int = 6, version: int = 2, **details: Any) -> None:
    desired = making.desired(action, version, **details)
    agent.give(inputs.DesiredArrived(making.COORDINATOR, desired))
    agent.fetch_all()


def switch(agent: Driven, throttled: int | None = None, **details: Any) -> None:
    want(agent, **details)
    agent.give(inputs.ModelInstalled(6, TWO, 1, throttled=throttled))


def states(agent: Driven) -> list[str]:
    return [body.state for body in agent.sent(ModelStatus) if isinstance(body, ModelStatus)]


def clock(agent: Driven, hour: int) -> None:
    assert len(agent.take(ReadLocalClock)) == 1
    agent.give(inputs.LocalClockRead(hour * 60))


def test_files_come_by_day_and_the_switch_by_night(agent: Driven) -> None:
    want(agent, hours=NIGHT)
    clock(agent, 12)
    assert agent.take(InstallModel) == []
    assert describe_model(agent.state) == "version 2 waits until 22:00"
    agent.wait(500)
    assert agent.take(ReadLocalClock) == [], "it is asked again in ten minutes"
    agent.wait(200)
    clock(agent, 22)
    assert len(agent.take(InstallModel)) == 1


def test_the_clock_is_asked_when_the_hours_begin(agent: Driven) -> None:
    want(agent, hours=NIGHT)
    agent.take(ReadLocalClock)
    agent.give(inputs.LocalClockRead(22 * 60 - 2))
    agent.wait(119)
    assert agent.take(ReadLocalClock) == []
    agent.wait(1)
    clock(agent, 22)
    assert len(agent.take(InstallModel)) == 1


def test_what_only_waits_for_its_hours_is_not_given_up(agent: Driven) -> None:
    want(agent, hours=NIGHT)
    for _ in range(100):
        clock(agent, 12)
        agent.wait(600)
    assert states(agent) == []
    clock(agent, 23)
    assert len(agent.take(InstallModel)) == 1


def test_a_candidate_is_compared_at_any_hour(agent: Driven) -> None:
    switch(agent)
    want(agent, 7, 3, hours=NIGHT, mode="shadow", rollout=1, group=1)
    assert len(agent.take(ShadowModel)) == 1
    assert agent.take(ReadLocalClock) == []


def test_something_newer_is_looked_at_at_once(agent: Driven) -> None:
    want(agent, hours=NIGHT)
    clock(agent, 12)
    want(agent, 7, 3)
    assert [request.desired.action for request in agent.take(InstallModel)] == [7]


def test_a_model_settles_after_its_time_and_says_how_hot_it_was(agent: Driven) -> None:
    switch(agent, throttled=3, settle_seconds=600.0)
    assert states(agent) == ["active"]
    agent.wait(599)
    assert agent.take(ReadThrottling) == []
    agent.wait(2)
    assert agent.take(ReadThrottling) == [ReadThrottling(TWO)]
    agent.give(inputs.ThrottlingRead(TWO, 5))
    (status,) = agent.sent(ModelStatus)
    assert (status.state, status.throttled, status.previous_version) == ("settled", 2, 1)
    agent.wait(1000)
    assert agent.take(ReadThrottling) == []
    assert states(agent) == []
    agent.connect()
    assert states(agent) == ["settled"], "told again after a welcome, like any report"


@pytest.mark.parametrize(("before", "after", "told"), [(None, 5, None), (9, 2, 2), (4, 4, 0)])
def test_a_machine_that_was_switched_off_has_counted_anew(
    agent: Driven, before: int | None, after: int | None, told: int | None
) -> None:
    switch(agent, throttled=before, settle_seconds=0.0)
    agent.give(inputs.ThrottlingRead(TWO, after))
    (_, status) = agent.sent(ModelStatus)
    assert status.throttled == told


def test_settling_counts_on_over_a_restart_and_is_told_once(agent: Driven) -> None:
    switch(agent, settle_seconds=600.0)
    for _ in range(10):
        agent.wait(30)
    agent.slots = (TWO, None)
    agent.kill()
    agent.connect()
    agent.wait(290)
    assert agent.take(ReadThrottling) == []
    agent.wait(40)
    agent.give(inputs.ThrottlingRead(TWO, None))
    assert states(agent)[-1] == "settled"
    agent.slots = (TWO, None)
    agent.kill()
    agent.wait(1000)
    assert len(agent.take(ReadThrottling)) == 1, "the one before"


def test_the_same_model_desired_again_goes_on_settling(agent: Driven) -> None:
    switch(agent, settle_seconds=600.0)
    agent.wait(601)
    agent.give(inputs.ThrottlingRead(TWO, None))
    agent.take(ReadThrottling)
    want(agent, 7, 2, settle_seconds=600.0)
    agent.sent(ModelStatus)
    agent.give(inputs.ModelInstalled(7, TWO, 1))
    agent.give(inputs.ThrottlingRead(TWO, None))
    assert states(agent) == ["active", "settled"]


def test_a_model_that_is_gone_does_not_settle(agent: Driven) -> None:
    switch(agent, settle_seconds=600.0)
    want(agent, 7, 3)
    agent.give(inputs.ModelInstalled(7, ActiveModel(3, making.digest("manifest 3")), 2))
    agent.wait(700)
    assert agent.take(ReadThrottling) == []


def test_a_model_that_fell_back_does_not_settle(agent: Driven) -> None:
    switch(agent, settle_seconds=600.0)
    agent.give(inputs.ModelFellBack(TWO, None, "it ended the agent"))
    agent.wait(700)
    assert agent.take(ReadThrottling) == []
    assert agent.state.records.settling is None


def test_waking_exactly_when_it_was_asked_for_is_never_too_early(agent: Driven) -> None:
    agent.now = 1_577_836_816.660123  # sums of seconds round here
    switch(agent, settle_seconds=600.0)
    for _ in range(40):
        due = settling.next_time(agent.state)
        if due is None or agent.take(ReadThrottling):
            break
        assert due > agent.now
        agent.wait(due - agent.now)
    else:
        pytest.fail("it never settles")
