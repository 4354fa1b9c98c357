"""A device with the coordinator's key: old births, a floor under its clock, and silence."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleetledger.device_agent.core import inputs, requests
from fleetledger.device_agent.core.state import LedgerTrust
from fleetledger.schemas.keys import KeyName, SigningKey
from fleetledger.schemas.presence import Birth, CoordinatorHeartbeat
from fleetledger.schemas.values import BootId, DeviceId, Digest, FleetId
from tests.device_agent import making
from tests.device_agent.core.driving import Driven

HOUR, DAY = 3600.0, 86_400.0
NOW_NS = 1_800_000_000 * 10**9
YEAR_NS = 365 * 86_400 * 10**9
KEY = SigningKey.fresh(KeyName("orchard/coordinator")).verify_key
FIRST, SECOND, THIRD = making.COORDINATOR, making.LATER_COORDINATOR, BootId("e" * 16)


@pytest.fixture
def agent(tmp_path: Path) -> Driven:
    trust = LedgerTrust(FleetId("orchard"), DeviceId("camera-1"), KEY)
    return Driven(tmp_path / "agent.db", trust=trust, silent_seconds=DAY)


def beat(agent: Driven, time_ns: int, corrections: int = 0, boot: BootId = FIRST) -> None:
    said = CoordinatorHeartbeat(ledger_size=10, time_ns=time_ns, corrections=corrections)
    agent.give(inputs.CoordinatorBeat(boot, said))


def born(agent: Driven, boot: BootId, size: int) -> list[requests.Request]:
    said = Digest.of(f"{boot} {size}".encode())
    return agent.give(inputs.CoordinatorBorn(boot, making.born(size), said))


def model(agent: Driven) -> int:
    return agent.state.records.desired.version


def test_old_births_and_old_models_bring_no_old_model_back(agent: Driven) -> None:
    agent.connect(coordinator=FIRST, ledger_size=5)
    agent.give(inputs.DesiredArrived(FIRST, making.desired(7, 1)))
    agent.connect(coordinator=SECOND, ledger_size=20)
    agent.give(inputs.DesiredArrived(SECOND, making.desired(30, 2)))
    for boot, size in ((FIRST, 5), (THIRD, 20), (FIRST, 5)):
        agent.give(inputs.AgentConnected())
        asked = born(agent, boot, size)
        agent.give(inputs.DesiredArrived(boot, making.desired(7, 1)))
        assert (model(agent), agent.state.presence.coordinator) == (2, SECOND)
        assert not [item for item in asked if isinstance(item, requests.ReferTo)]
        agent.kill()
        agent.connect(coordinator=SECOND, ledger_size=20)
    assert model(agent) == 2


def test_old_models_of_the_same_run_are_not_taken_again(agent: Driven) -> None:
    agent.connect(ledger_size=5)
    for action, version in ((7, 1), (9, 2), (7, 1), (9, 1), (8, 1)):
        agent.give(inputs.DesiredArrived(FIRST, making.desired(action, version)))
    agent.kill()
    agent.connect(ledger_size=5)
    agent.give(inputs.DesiredArrived(FIRST, making.desired(8, 1)))
    assert model(agent) == 2


def test_an_old_birth_is_told_once_a_connection_with_the_way_out(agent: Driven) -> None:
    agent.connect(coordinator=SECOND, ledger_size=20)
    asked = [request for _ in range(3) for request in born(agent, FIRST, 5)]
    (said,) = [item.text for item in asked if isinstance(item, requests.Say)]
    assert "names 5 entries, and 20 are proven" in said
    assert "agent forget --checkpoint" in said
    told = [item.body.kind for item in asked if isinstance(item, requests.Send)]
    assert told.count(Birth.kind) == 1, "by which the operator hears what was proven"
    assert said in agent.state.told.recent


def test_the_retained_birth_of_the_run_that_is_known_is_believed(agent: Driven) -> None:
    """It is of before the entries that this run has made and proven since."""
    agent.connect(coordinator=FIRST, ledger_size=5)
    agent.give(inputs.DesiredArrived(FIRST, making.desired(7, 1)))
    agent.kill()
    agent.give(inputs.AgentConnected())
    asked = born(agent, FIRST, 5)
    assert agent.state.presence.coordinator == FIRST
    assert [item for item in asked if isinstance(item, requests.ReferTo)]


def test_what_a_new_run_asks_for_may_come_before_its_birth(agent: Driven) -> None:
    agent.connect(coordinator=FIRST, ledger_size=5)
    agent.kill()
    agent.give(inputs.AgentConnected())
    agent.give(inputs.DesiredArrived(SECOND, making.desired(12, 2)))
    born(agent, SECOND, 10)
    assert agent.state.presence.coordinator == SECOND


def test_the_floor_of_the_clock_grows_and_survives_a_restart(agent: Driven) -> None:
    for time_ns, floor in ((NOW_NS, NOW_NS), (NOW_NS - 1, NOW_NS), (NOW_NS + 5, NOW_NS + 5)):
        beat(agent, time_ns)
        assert agent.state.records.heard.time_ns == floor
    agent.kill()
    assert agent.state.records.heard.time_ns == NOW_NS + 5


def test_a_year_too_many_is_taken_back_once_the_operator_says_so(agent: Driven) -> None:
    beat(agent, NOW_NS + YEAR_NS)
    beat(agent, NOW_NS)
    assert agent.state.records.heard.time_ns == NOW_NS + YEAR_NS
    beat(agent, NOW_NS, corrections=1)
    assert agent.state.records.heard.time_ns == NOW_NS
    beat(agent, NOW_NS + YEAR_NS, corrections=0)
    assert agent.state.records.heard.time_ns == NOW_NS, "what was said before is not said again"


def test_nobody_is_believed_about_time_whose_word_is_not_signed(tmp_path: Path) -> None:
    agent = Driven(tmp_path / "agent.db", silent_seconds=DAY)
    beat(agent, NOW_NS)
    assert agent.state.records.heard.time_ns == 0
    agent.wait(2 * DAY)
    assert agent.state.told.recent == ()


def silence(agent: Driven) -> list[str]:
    return [text for text in agent.state.told.recent if "nothing new that it has signed" in text]


def test_a_day_of_silence_is_told_over_restarts_too(agent: Driven) -> None:
    agent.connect()
    beat(agent, NOW_NS)
    for _ in range(40):
        agent.wait(HOUR / 2)
        agent.wait(1)
    agent.kill()  # the next run counts on
    assert not silence(agent)
    for _ in range(5):
        agent.wait(HOUR)
    (told,) = silence(agent)
    assert "for 24" in told
    agent.kill()
    agent.wait(1)
    assert silence(agent), "it has not ended with the restart"


def test_what_is_said_again_ends_no_silence(agent: Driven) -> None:
    agent.connect()
    beat(agent, NOW_NS)
    agent.give(inputs.DesiredArrived(FIRST, making.desired(1001, 1)))
    for _ in range(25):
        agent.wait(HOUR)
        beat(agent, NOW_NS)
        born(agent, FIRST, 900)
        agent.give(inputs.DesiredArrived(FIRST, making.desired(1001, 1)))
    assert silence(agent)
    beat(agent, NOW_NS + 1)
    agent.wait(1)
    assert not agent.state.listening.told
    assert agent.state.records.silent == agent.store.load().silent == 0.0


def test_a_coordinator_that_is_heard_every_hour_is_not_silent(agent: Driven) -> None:
    agent.connect()
    for hour in range(100):
        beat(agent, NOW_NS + hour)
        agent.wait(HOUR)
    assert not silence(agent)
