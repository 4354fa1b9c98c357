"""Messages that an earlier installation sent may arrive after this one was born."""

from __future__ import annotations

from fleetledger.device_agent.core import inputs
from fleetledger.device_agent.core.requests import SendHeartbeat
from fleetledger.schemas.contributions import Contribution, HeldPart, Withdrawal, held_digest
from tests.device_agent import making
from tests.device_agent.core.driving import Driven


def held(number: int, payload: str, revision: int = 0) -> HeldPart:
    return HeldPart(
        key=making.part_key(1, number), revision=revision, payload=making.digest(payload)
    )


def welcome_again(agent: Driven, *parts: HeldPart) -> None:
    """What the coordinator answers to a heartbeat that lacks some of these parts."""
    answer = making.welcome(agent.state.identity.boot, *parts, next_part=9)
    agent.give(inputs.Welcomed(making.COORDINATOR, answer))


def test_a_heartbeat_says_what_the_device_believes_to_be_held(waiting: Driven) -> None:
    waiting.take(SendHeartbeat)
    waiting.wait(20)
    assert [beat.held for beat in waiting.take(SendHeartbeat)] == [held_digest([])]
    waiting.receipt(making.accepted("contribution", making.part_key()))
    waiting.wait(20)
    assert [beat.held for beat in waiting.take(SendHeartbeat)] == [
        held_digest([held(0, "payload")])
    ]


def test_before_a_welcome_a_heartbeat_says_nothing_of_it(agent: Driven) -> None:
    agent.give(inputs.AgentConnected())
    agent.wait(20)
    assert {beat.held for beat in agent.take(SendHeartbeat)} == {None}


def test_the_order_of_parts_does_not_matter() -> None:
    parts = [held(0, "a"), held(1, "b"), held(10, "c")]
    assert held_digest(parts) == held_digest(reversed(parts))
    assert held_digest(parts) != held_digest(parts[:2])
    assert held_digest(parts) != held_digest([*parts[:2], held(10, "c", revision=1)])


def test_a_digest_of_parts_follows_those_that_come_and_go() -> None:
    parts = [held(0, "a"), held(1, "b"), held(10, "c")]
    followed = held_digest(parts[1:], parts[:1], of=held_digest(parts[:1]))
    assert followed == held_digest(parts[1:])
    assert held_digest([], parts, of=held_digest(parts)) == held_digest([])


def test_a_receipt_for_another_payload_is_not_taken_for_our_own(waiting: Driven) -> None:
    receipt = making.accepted("contribution", making.part_key())
    waiting.receipt(receipt.model_copy(update={"payload": making.digest("foreign")}))
    assert len(waiting.state.records.outbox) == 1
    waiting.receipt(receipt.model_copy(update={"payload": making.digest("payload")}))
    assert not waiting.state.records.outbox


def test_a_part_that_was_refused_for_a_foreign_one_is_given_with_a_higher_revision(
    waiting: Driven,
) -> None:
    waiting.receipt(making.refused("contribution", making.part_key()))
    assert waiting.job() is None
    welcome_again(waiting, held(0, "foreign", revision=3))
    assert waiting.contents_of_job() == {"cat/a": "cat"}
    waiting.compute("payload")
    waiting.wait(5)
    (body,) = waiting.messages()
    assert isinstance(body, Contribution)
    assert (body.key, body.revision) == (making.part_key(), 4)


def test_a_part_that_is_refused_again_is_not_given_for_ever(waiting: Driven) -> None:
    waiting.receipt(making.refused("contribution", making.part_key()))
    welcome_again(waiting, held(0, "foreign"))
    waiting.compute("payload")
    waiting.messages()
    waiting.receipt(making.refused("contribution", making.part_key(), revision=1))
    welcome_again(waiting, held(0, "foreign"))
    waiting.wait(100)
    assert waiting.job() is None
    assert waiting.messages() == []


def test_a_foreign_part_that_came_late_is_withdrawn(waiting: Driven) -> None:
    waiting.receipt(making.accepted("contribution", making.part_key()))
    welcome_again(waiting, held(0, "payload"), held(5, "foreign", revision=2))
    (body,) = waiting.messages()
    assert isinstance(body, Withdrawal)
    assert (body.key, body.revision) == (making.part_key(1, 5), 3)


def test_a_withdrawal_that_a_late_revision_has_passed_is_written_anew(waiting: Driven) -> None:
    waiting.receipt(making.accepted("contribution", making.part_key()))
    welcome_again(waiting, held(0, "payload"), held(5, "foreign", revision=2))
    waiting.messages()
    welcome_again(waiting, held(5, "foreign anew", revision=3))
    waiting.wait(5)
    (body,) = waiting.messages()
    assert isinstance(body, Withdrawal)
    assert (body.key, body.revision) == (making.part_key(1, 5), 4)
    welcome_again(waiting, held(5, "foreign anew", revision=3))
    assert waiting.messages() == []
