"""The outbox, through the real rules and the real store."""

import pytest

from fleetledger.device_agent.core import inputs
from fleetledger.device_agent.core.records import OutboxKey
from fleetledger.device_agent.core.requests import SendOutboxMessage
from fleetledger.device_agent.core.standing_problems import standing_problems
from fleetledger.runtime.problems import PATIENCE_SECONDS
from fleetledger.schemas.contributions import Contribution, Nothing, Withdrawal
from fleetledger.schemas.reports import Problem
from tests.device_agent import making
from tests.device_agent.core.driving import Driven

KEY = OutboxKey("contribution", making.part_key())


def test_the_outbox_survives_a_kill_with_its_payload(waiting: Driven) -> None:
    waiting.kill()
    assert waiting.store.payload(KEY) == b"payload"
    waiting.connect()
    (body,) = waiting.messages()
    assert isinstance(body, Contribution)
    assert body.payload == making.digest("payload")
    waiting.assign("cat", "dog")
    assert waiting.job() is None, "its image is counted"


def test_nothing_is_sent_if_the_commit_fails(ready: Driven, monkeypatch) -> None:
    ready.put(a="cat/1")
    ready.scan()

    def full_disk(_records, _changes) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(ready.store, "commit", full_disk)
    with pytest.raises(OSError, match="disk full"):
        ready.compute()
    assert ready.messages() == []
    monkeypatch.undo()
    ready.kill()
    ready.connect()
    ready.assign("cat", action=2)
    assert ready.contents_of_job() == {"cat/a": "cat"}


def test_an_accepted_message_is_dropped_with_its_payload(waiting: Driven) -> None:
    waiting.receipt(making.accepted("contribution", making.part_key()))
    assert waiting.store.payload(KEY) == b""
    waiting.wait(100)
    assert waiting.messages() == []
    assert waiting.store.load().parts[making.part_key()].state == "accepted"


def test_repeated_and_strange_receipts_change_nothing(waiting: Driven) -> None:
    waiting.receipt(making.accepted("contribution", making.part_key(9, 9)))
    waiting.receipt(making.accepted("contribution", making.part_key(), revision=5))
    assert len(waiting.state.records.outbox) == 1
    waiting.receipt(making.accepted("contribution", making.part_key()))
    before = waiting.store.load()
    waiting.receipt(making.accepted("contribution", making.part_key()))
    waiting.receipt(making.refused("contribution", making.part_key()))
    assert waiting.store.load() == before


def test_a_refused_message_becomes_a_dead_letter_and_its_images_are_not_sent_for_ever(
    waiting: Driven,
) -> None:
    waiting.receipt(making.refused("contribution", making.part_key(), reason="wrong shape"))
    (dead,) = waiting.store.dead_letters()
    assert (dead.about, dead.stage, dead.part, dead.reason) == (
        "contribution",
        1,
        0,
        "wrong shape",
    )
    (told,) = waiting.sent(Problem)
    assert "wrong shape" in told.text
    waiting.scan()
    assert waiting.job() is None
    waiting.kill()
    waiting.connect()
    waiting.assign("cat", "dog", action=5)
    assert waiting.job() is None
    assert waiting.state.records.dead_letters == 1


def test_a_refused_part_is_sent_anew_when_its_image_is_relabelled(waiting: Driven) -> None:
    waiting.receipt(making.refused("contribution", making.part_key()))
    waiting.put(a="dog/1")
    waiting.scan()
    waiting.compute("better")
    (body,) = waiting.messages()
    assert (body.key, body.revision) == (making.part_key(), 1)


def test_later_means_after_so_many_seconds(waiting: Driven) -> None:
    waiting.receipt(making.later("contribution", making.part_key(), seconds=30))
    waiting.wait(29)
    assert waiting.messages() == []
    waiting.wait(1)
    assert len(waiting.messages()) == 1


def test_waits_between_sends_double_from_one_to_sixty_seconds_with_jitter(waiting: Driven) -> None:
    waits = []
    for _ in range(9):
        due = waiting.state.sending.tries[KEY].due
        waits.append(due - waiting.now)
        waiting.now = due
        waiting.give(inputs.Ticked())
        assert len(waiting.messages()) == 1
    for number, wait in enumerate(waits):
        longest = min(60, 2 * 2**number)
        assert longest / 2 <= wait <= longest
    assert len({wait / min(60, 2 * 2**n) for n, wait in enumerate(waits)}) > 1, "no jitter"


def test_a_message_is_sent_again_at_once_after_a_new_connection(waiting: Driven) -> None:
    waiting.give(inputs.AgentDisconnected())
    waiting.wait(100)
    assert waiting.messages() == []
    waiting.connect()
    assert len(waiting.messages()) == 1


def test_nothing_is_sent_while_the_coordinator_is_away(waiting: Driven) -> None:
    waiting.give(inputs.CoordinatorDied(making.COORDINATOR))
    waiting.wait(100)
    assert waiting.messages() == []


def test_only_a_few_messages_are_under_way_at_a_time(agent: Driven) -> None:
    agent.put(**{f"i{n:02}": f"cat/{n}" for n in range(20)})
    agent.connect()
    agent.assign("cat", per_part=1)
    for n in range(20):
        agent.compute(f"payload {n}")
    assert len(agent.messages()) == agent.rules.messages_under_way
    agent.receipt(making.accepted("contribution", making.part_key(1, 3)))
    assert [body.key.part for body in agent.messages()] == [16]


def test_withdrawals_go_before_contributions(agent: Driven) -> None:
    agent.connect(making.held(4, 2, "strange"), next_part=5)
    agent.put(a="cat/1")
    agent.assign("cat")
    agent.compute()
    (body,) = agent.messages()
    assert isinstance(body, Withdrawal)
    agent.receipt(making.accepted("withdrawal", making.part_key(1, 4), revision=3))
    (body,) = agent.messages()
    assert isinstance(body, Contribution)


def test_a_refused_nothing_is_not_repeated(agent: Driven) -> None:
    agent.connect()
    agent.assign("cat")
    agent.receipt(making.refused("nothing", making.part_key(1)))
    agent.messages()
    agent.scan()
    assert agent.messages() == []


def test_a_repeated_nothing_has_the_same_key(agent: Driven) -> None:
    agent.connect()
    agent.assign("cat")
    agent.wait(3)
    sent = agent.take(SendOutboxMessage)
    assert {request.message for request in sent} == {OutboxKey("nothing", making.part_key(1))}
    assert len(sent) > 1
    assert all(request.body == Nothing(stage=1) for request in sent)


def test_the_longer_a_message_is_put_off_the_less_often_it_asks(waiting: Driven) -> None:
    asked = 0
    for _ in range(1200):
        asked += len(waiting.messages())
        if waiting.wait(1.0):
            waiting.receipt(making.later("contribution", making.part_key(), seconds=2))
    assert asked < 60, "every two seconds it would be 600"


def test_what_is_put_off_says_so_with_the_coordinators_reason(waiting: Driven) -> None:
    reason = "device: 'camera-1' was retired from this fleet"
    answer = making.later("contribution", making.part_key(), seconds=2)
    told = answer.answer.model_copy(update={"reason": reason})
    waiting.receipt(answer.model_copy(update={"answer": told}))
    (problem,) = [item for item in standing_problems(waiting.state) if item.key == "put off"]
    assert problem.text == f"outbox: 1 message waits here, put off by the coordinator: {reason}"
    assert (problem.hinders, problem.patience) == (True, PATIENCE_SECONDS)
    waiting.receipt(making.accepted("contribution", making.part_key()))
    assert not [item for item in standing_problems(waiting.state) if item.key == "put off"]
