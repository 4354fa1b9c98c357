"""The deadline of a desired model, over outages, restarts and calendars that leap."""

from pathlib import Path
from random import Random

import pytest

from fleetledger.device_agent.core import inputs
from fleetledger.device_agent.core.records import ActiveModel
from fleetledger.device_agent.core.requests import FetchFile, InstallModel, WakeAt
from fleetledger.device_agent.core.session import turn
from fleetledger.schemas.models import ModelStatus
from tests.device_agent import making
from tests.device_agent.core.driving import Driven

HOUR = 3600.0
DAY = 24 * HOUR
YEAR = 365 * DAY
NOW_NS = 1_800_000_000 * 10**9


def ns(seconds: float) -> int:
    return round(seconds * 10**9)


class Calendar(Driven):
    """An agent whose device has a calendar beside its clock."""

    time_ns = NOW_NS

    def pass_(self, seconds: float, *, calendar: float | None = None) -> None:
        self.time_ns += ns(seconds if calendar is None else calendar)
        self.wait(seconds)

    def away(self, seconds: float) -> None:
        """Be killed and start again after so long by the calendar."""
        self.store.close()
        self.time_ns += ns(seconds)
        self.start()

    def wakes_at(self) -> float:
        """Return when the rules want to be asked again."""
        asked = list(turn(self.state, inputs.Ticked(), self.now, self.store.commit))
        times = [item.time for item in asked if isinstance(item, WakeAt)]
        assert times[-1] > self.now
        return times[-1]

    def status(self) -> ModelStatus | None:
        return self.state.records.status


@pytest.fixture
def agent(tmp_path: Path) -> Calendar:
    driven = Calendar(tmp_path / "agent.db")
    driven.connect()
    driven.assign("cat")
    driven.receipt_for_nothing()
    return driven


def want(agent: Calendar, action: int = 5, version: int = 1) -> None:
    desired = making.desired(action, version)
    agent.give(inputs.DesiredArrived(making.COORDINATOR, desired, agent.time_ns))


def outage(agent: Calendar) -> None:
    agent.give(inputs.AgentDisconnected())


def test_an_endless_outage_ends_in_failed_with_its_reason(agent: Calendar) -> None:
    want(agent)
    outage(agent)
    agent.pass_(DAY - 1)
    assert agent.status() is None
    agent.pass_(1)
    status = agent.status()
    assert status is not None
    assert (status.version, status.state) == (1, "failed")
    # The frozen model is here since the assignment, so two of the three files are missing.
    assert status.reason.startswith("deadline: 2 of 3 files did not come within 24 h; push")
    agent.connect()
    assert agent.sent(ModelStatus) == [status], "it is told as soon as somebody hears it"


def test_the_rules_ask_to_be_woken_at_the_deadline_itself(tmp_path: Path) -> None:
    agent = Calendar(tmp_path / "agent.db", deadline_seconds=100.0, scan_seconds=1e6)
    agent.connect()
    agent.assign("cat")
    agent.receipt_for_nothing()
    want(agent)
    outage(agent)
    began = agent.now
    while agent.status() is None:
        agent.now = agent.wakes_at()
        agent.give(inputs.Ticked())
    assert agent.now - began == pytest.approx(100.0)


def test_nothing_more_is_fetched_for_it(agent: Calendar) -> None:
    want(agent)
    outage(agent)
    agent.pass_(DAY)
    agent.connect()
    agent.take(FetchFile)
    agent.pass_(HOUR)
    assert agent.take(FetchFile) == []


def test_a_model_that_came_is_not_given_up(agent: Calendar) -> None:
    want(agent)
    for _ in range(2):
        (fetch,) = agent.take(FetchFile)[-1:]
        agent.give(inputs.FetchFinished(fetch.offer.digest))
    assert len(agent.take(InstallModel)) == 1
    agent.pass_(2 * DAY)
    assert agent.status() is None, "an installation comes to its own end"
    active = ActiveModel(1, making.digest("manifest 1"))
    agent.give(inputs.ModelInstalled(5, active))
    agent.pass_(2 * DAY)
    status = agent.status()
    assert status is not None
    assert status.state == "active"


def test_the_same_model_pushed_again_has_a_deadline_of_its_own(agent: Calendar) -> None:
    want(agent)
    outage(agent)
    agent.pass_(DAY)
    want(agent, action=6)
    agent.pass_(DAY - HOUR)
    assert agent.state.records.acted == 5
    agent.pass_(HOUR)
    assert agent.state.records.acted == 6


@pytest.mark.parametrize("leap", [YEAR, -YEAR])
def test_a_calendar_that_leaps_while_the_agent_runs_changes_nothing(
    agent: Calendar, leap: float
) -> None:
    want(agent)
    outage(agent)
    agent.pass_(HOUR, calendar=HOUR + leap)
    agent.pass_(22 * HOUR)
    assert agent.status() is None
    agent.pass_(HOUR)
    assert agent.status() is not None


@pytest.mark.parametrize("leap", [YEAR, -YEAR])
def test_a_leap_over_a_restart_costs_at_most_a_tenth_of_the_deadline(
    agent: Calendar, leap: float
) -> None:
    want(agent)
    outage(agent)
    agent.away(leap)
    agent.pass_(0.9 * DAY - 2)
    assert agent.status() is None
    agent.pass_(0.1 * DAY + 2)
    assert agent.status() is not None


def test_restarts_do_not_prolong_it(agent: Calendar) -> None:
    want(agent)
    outage(agent)
    random, spent = Random(1), 0.0
    while agent.status() is None:
        seconds = random.uniform(1, HOUR)
        agent.pass_(seconds)
        agent.away(0.5)
        spent += seconds + 0.5
    assert DAY <= spent <= DAY + 2 * HOUR


@pytest.mark.parametrize("leap", [0, -YEAR])
def test_without_a_calendar_to_believe_a_restart_costs_at_most_a_minute(
    tmp_path: Path, leap: float
) -> None:
    agent = Calendar(tmp_path / "agent.db", deadline_seconds=2 * HOUR)
    agent.connect()
    agent.assign("cat")
    want(agent)
    outage(agent)
    spent = 0.0
    while agent.status() is None:
        for seconds in [60] * 9 + [59]:
            agent.pass_(seconds, calendar=0)
            spent += seconds
        agent.away(leap)
    assert 2 * HOUR <= spent <= 2 * HOUR * 599 / 540 + 600


def test_an_action_of_a_new_ledger_does_not_inherit_the_time_of_the_old_one(
    agent: Calendar,
) -> None:
    want(agent)
    outage(agent)
    agent.pass_(DAY - HOUR)
    agent.connect(coordinator=making.LATER_COORDINATOR, ledger_size=1)
    assert agent.state.records.waited is None
