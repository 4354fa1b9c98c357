"""A key that waits for the coordinator's word, through the real rules and store."""

from __future__ import annotations

from pathlib import Path

from fleetledger.device_agent.core import inputs
from fleetledger.device_agent.core.records import EnrollingState
from fleetledger.device_agent.core.requests import AdoptKey, Send, SendHeartbeat
from fleetledger.schemas.enrolment import Enrolment, KeyRotation
from fleetledger.schemas.keys import KeyName, SignatureText, VerifyKey
from fleetledger.schemas.presence import Birth
from fleetledger.schemas.values import Digest
from tests.device_agent import making
from tests.device_agent.core.driving import Driven

NAME = KeyName("fleet/device/bench")
KEY, OTHER = VerifyKey.of(NAME, bytes(32)), VerifyKey.of(NAME, bytes(range(32)))
ENROLMENT = Enrolment(key=KEY, mac=Digest.of(b"mac"))
ROTATION = KeyRotation(key=KEY, approval=SignatureText.of(bytes(64)))


def agent_with(folder: Path, enrolling: EnrollingState) -> Driven:
    agent = Driven(folder / "agent.db")
    agent.state.enrolling = enrolling
    return agent


def bodies(agent: Driven) -> list[type]:
    return [type(request.body) for request in agent.take(Send)]


def test_nothing_goes_out_before_the_first_key_is_confirmed(tmp_path: Path) -> None:
    agent = agent_with(tmp_path, EnrollingState(ENROLMENT, first=True))
    agent.give(inputs.AgentConnected())
    agent.give(inputs.CoordinatorBorn(making.COORDINATOR, making.born()))
    for _ in range(20):
        agent.wait(10)
    assert set(bodies(agent)) == {Enrolment}
    assert agent.take(SendHeartbeat) == []
    agent.give(inputs.KeyEnrolled(KEY))
    assert agent.take(AdoptKey) == [AdoptKey()]
    assert bodies(agent) == [Birth]
    agent.wait(20)
    assert agent.take(SendHeartbeat) != []
    assert Enrolment not in bodies(agent)


def test_it_is_asked_again_with_growing_waits_and_anew_by_a_new_coordinator(tmp_path: Path) -> None:
    agent = agent_with(tmp_path, EnrollingState(ENROLMENT, first=True))
    agent.give(inputs.AgentConnected())
    assert bodies(agent) == [Enrolment]
    agent.give(inputs.CoordinatorBorn(making.COORDINATOR, making.born()))
    assert bodies(agent) == [Enrolment]
    agent.wait(2)
    assert bodies(agent) == []
    agent.wait(3)
    assert bodies(agent) == [Enrolment]
    agent.give(inputs.CoordinatorBorn(making.LATER_COORDINATOR, making.born()))
    agent.give(inputs.AgentDisconnected())
    agent.give(inputs.AgentConnected())
    assert bodies(agent) == [Enrolment, Enrolment]


def test_it_is_asked_again_where_the_birth_of_the_coordinator_was_lost_as_well(
    tmp_path: Path,
) -> None:
    agent = agent_with(tmp_path, EnrollingState(ENROLMENT, first=True))
    agent.give(inputs.AgentConnected())
    assert bodies(agent) == [Enrolment]
    for _ in range(10):
        agent.wait(70)
        assert bodies(agent) == [Enrolment], "no heartbeat would bring the birth"


def test_another_key_that_waits_holds_nothing_back(tmp_path: Path) -> None:
    agent = agent_with(tmp_path, EnrollingState(ROTATION, first=False))
    agent.give(inputs.AgentConnected())
    assert bodies(agent) == [KeyRotation, Birth]
    agent.connect()
    agent.give(inputs.KeyEnrolled(KEY))
    assert agent.take(AdoptKey) == [AdoptKey()]
    assert agent.state.presence.welcomed
    assert bodies(agent)[-1] is Birth
    agent.wait(1000)
    assert KeyRotation not in bodies(agent)


def test_the_word_for_another_key_changes_nothing(tmp_path: Path) -> None:
    agent = agent_with(tmp_path, EnrollingState(ENROLMENT, first=True))
    agent.give(inputs.AgentConnected())
    agent.give(inputs.KeyEnrolled(OTHER))
    assert agent.take(AdoptKey) == []
    assert agent.state.enrolling.holds_back


def test_a_device_without_a_key_asks_for_nothing(agent: Driven) -> None:
    agent.connect()
    agent.give(inputs.KeyEnrolled(KEY))
    agent.wait(1000)
    assert agent.take(AdoptKey) == []
    assert Enrolment not in bodies(agent)
