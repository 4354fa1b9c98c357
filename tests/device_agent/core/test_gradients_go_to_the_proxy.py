"""Gradients are a message to the proxy: written with the answer, kept until its receipt."""

from dataclasses import replace
from pathlib import Path

import pytest

from fleetledger.device_agent.core import inputs, policy, requests
from fleetledger.device_agent.core.models import files_to_keep
from fleetledger.device_agent.core.records import OutboxKey
from fleetledger.device_agent.program.status import (
    describe_policy,
    describe_training,
    waiting_gradients,
)
from fleetledger.device_agent.settings import PolicySettings
from fleetledger.schemas.contributions import Contribution, Nothing
from fleetledger.schemas.proxy import PrototypeGradients
from fleetledger.schemas.reports import Problem
from tests.device_agent import making
from tests.device_agent.core.driving import Driven
from tests.device_agent.core.test_a_round_is_answered_once import able
from tests.device_agent.models import watching_method


@pytest.fixture
def trainee(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Driven:
    """An agent that is connected, has two images, and may send gradients."""
    monkeypatch.setattr(policy, "descriptor", lambda name: watching_method.DESCRIPTOR)
    agent = Driven(tmp_path / "agent.db", policy=PolicySettings(publish_gradients=True))
    agent.connect()
    agent.put(one="cat/1", two="dog/2")
    return agent


def train(agent: Driven, number: int = 1, *, offered: bool = False) -> OutboxKey:
    """Ask for a round and end it with gradients; return the key of their message."""
    agent.order(number, action=agent.state.records.last_action + 1)
    agent.train(gradients=making.gradients(f"gradients {number}", offered=offered), memory="m")
    return OutboxKey("gradients", making.part_key(1, number))


def gradients(agent: Driven) -> list[PrototypeGradients]:
    return [body for body in agent.sent(PrototypeGradients) if isinstance(body, PrototypeGradients)]


def test_a_message_with_the_round_as_part_is_sent_until_the_proxys_receipt(trainee: Driven) -> None:
    key = train(trainee)
    (sent,) = gradients(trainee)
    assert (sent.key, sent.method) == (making.part_key(1, 1), "rounds")
    assert sent.payload == making.digest("gradients 1")
    assert trainee.store.payload(key) == b"gradients 1"
    trainee.wait(3.0)
    assert gradients(trainee) == [sent]
    assert waiting_gradients(trainee.state) == 1
    trainee.receipt(making.accepted("gradients", sent.key))
    trainee.wait(100.0)
    assert gradients(trainee) == []
    assert key not in trainee.state.records.outbox
    assert trainee.store.payload(key) == b""
    assert waiting_gradients(trainee.state) == 0


def test_it_is_committed_with_answer_and_memory_at_once(trainee: Driven) -> None:
    trainee.order()
    job = trainee.state.training.job
    assert job is not None
    committed = []
    commit = trainee.store.commit

    def remember(records, changes) -> None:
        commit(records, changes)
        committed.append(([key.about for key in records.outbox], records.memory))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trainee.store, "commit", remember)
        trainee.train(gradients=making.gradients(), memory="exemplars")
    assert committed[0] == (["contribution", "gradients"], making.digest("exemplars"))
    trainee.kill()
    assert [key.about for key in trainee.state.records.outbox] == ["contribution", "gradients"]
    assert trainee.state.records.memory == making.digest("exemplars")


def test_after_a_restart_a_full_outbox_is_sent_again(trainee: Driven) -> None:
    keys = [train(trainee, number) for number in (1, 2, 3)]
    trainee.kill()
    trainee.requests.clear()
    trainee.connect()
    assert [OutboxKey("gradients", body.key) for body in gradients(trainee)] == keys


def test_gradients_of_a_training_whose_order_is_over_are_dropped_with_it(trainee: Driven) -> None:
    trainee.order()
    trainee.give(inputs.Assigned(making.COORDINATOR, making.training(None, action=2)))
    trainee.train(gradients=making.gradients())
    assert trainee.messages() == []
    assert trainee.state.records.outbox == {}


def test_a_proxy_that_is_silent_holds_up_no_other_message(trainee: Driven) -> None:
    for number in range(1, 30):
        train(trainee, number)
        trainee.receipt(making.accepted("contribution", making.part_key(1, number)))
    trainee.requests.clear()
    trainee.order(30, action=trainee.state.records.last_action + 1)
    trainee.train()
    sent = trainee.messages()
    assert [body.key.part for body in sent if isinstance(body, Contribution)] == [30]
    under_way = set(trainee.state.sending.tries) & set(trainee.state.records.outbox)
    assert sum(key.about == "gradients" for key in under_way) == trainee.rules.messages_under_way


def test_refused_gradients_are_a_dead_letter_with_the_reason(trainee: Driven) -> None:
    key = train(trainee)
    trainee.receipt(making.refused("gradients", key.key, reason="gradients: 3 sets too many"))
    assert trainee.state.records.dead_letters == 1
    (dead,) = trainee.store.dead_letters()
    assert (dead.about, dead.part, dead.reason) == ("gradients", 1, "gradients: 3 sets too many")
    told = [body.text for body in trainee.sent(Problem) if isinstance(body, Problem)]
    assert told == ["gradients of stage 1, part 1: refused: gradients: 3 sets too many"]
    assert waiting_gradients(trainee.state) == 0


def test_gradients_wait_as_long_as_the_proxy_says(trainee: Driven) -> None:
    key = train(trainee)
    gradients(trainee)
    trainee.receipt(making.later("gradients", key.key, 500.0))
    trainee.wait(499.0)
    assert gradients(trainee) == []
    trainee.wait(2.0)
    assert len(gradients(trainee)) == 1


def test_a_receipt_for_other_gradients_under_that_key_changes_nothing(trainee: Driven) -> None:
    key = train(trainee)
    other = making.accepted("gradients", key.key).model_copy(
        update={"payload": making.digest("of an earlier installation")}
    )
    trainee.receipt(other)
    assert key in trainee.state.records.outbox


def test_answer_and_gradients_of_a_round_have_receipts_of_their_own(trainee: Driven) -> None:
    able(trainee)
    key = train(trainee)
    trainee.receipt(making.accepted("contribution", key.key))
    assert list(trainee.state.records.outbox) == [key]
    assert describe_training(trainee.state) == "waits for a round; round 1 is answered"


def test_gradients_of_another_network_wait_for_its_return(trainee: Driven) -> None:
    train(trainee)
    other = making.training(None, action=2).model_copy(update={"lineage": making.digest("other")})
    trainee.give(inputs.Assigned(making.COORDINATOR, other))
    trainee.requests.clear()
    trainee.wait(100.0)
    assert gradients(trainee) == []
    trainee.give(inputs.Assigned(making.COORDINATOR, making.training(None, action=3)))
    assert len(gradients(trainee)) == 1


def test_a_large_payload_stays_on_the_disk_until_the_receipt(trainee: Driven) -> None:
    key = train(trainee, offered=True)
    payload = making.digest("gradients 1")
    assert payload in files_to_keep(trainee.state.records)
    assert payload in trainee.take(requests.CleanFiles)[-1].keep
    trainee.receipt(making.accepted("contribution", key.key))
    trainee.receipt(making.accepted("gradients", key.key))
    assert payload not in trainee.take(requests.CleanFiles)[-1].keep


def test_gradients_whose_file_is_gone_are_given_up_and_told(trainee: Driven) -> None:
    key = train(trainee, offered=True)
    trainee.sent()
    trainee.give(inputs.FileDamaged(making.digest("gradients 1")))
    assert key not in trainee.state.records.outbox
    told = trainee.sent(Problem)
    assert [body.text for body in told if isinstance(body, Problem)] == [
        "round 1: their file is gone; the proxy goes without them"
    ]
    assert trainee.store.load() == trainee.state.records
    trainee.receipt(making.accepted("contribution", key.key))
    trainee.wait(100.0)
    assert trainee.take(requests.Train)[1:] == [], "nothing is trained anew for it"


def test_training_is_told_whether_gradients_may_be_kept(trainee: Driven) -> None:
    trainee.order()
    assert trainee.take(requests.Train)[-1].publishes
    trainee.train()
    trainee.rules = replace(trainee.rules, policy=PolicySettings(publish_gradients=False))
    trainee.kill()
    trainee.connect()
    trainee.order(2, action=2)
    assert not trainee.take(requests.Train)[-1].publishes


def test_a_method_without_a_proxy_has_nothing_kept(
    trainee: Driven, monkeypatch: pytest.MonkeyPatch
) -> None:
    descriptor = replace(watching_method.DESCRIPTOR, proxy=False)
    monkeypatch.setattr(policy, "descriptor", lambda name: descriptor)
    trainee.order()
    assert not trainee.take(requests.Train)[-1].publishes
    assert (
        policy.withheld(
            replace(trainee.rules, policy=PolicySettings(publish_gradients=False)), "rounds"
        )
        == ""
    )


def test_a_device_whose_owner_forbids_them_trains_and_says_so_once(
    agent: Driven, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(policy, "descriptor", lambda name: watching_method.DESCRIPTOR)
    agent.connect()
    agent.put(one="cat/1")
    said = []
    for number in (1, 2):
        agent.order(number, action=number)
        agent.train()
        answer, *problems = agent.sent(Contribution, Problem)
        assert isinstance(answer, Contribution)
        said += [body.text for body in problems if isinstance(body, Problem)]
        agent.receipt(making.accepted("contribution", answer.key))
    assert said == [describe_policy(agent.state)]
    assert describe_policy(agent.state).startswith(
        "policy.publish_gradients = false: this device sends the proxy no gradients; it trains"
    )


def test_an_order_to_look_needs_no_permission(
    agent: Driven, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(policy, "descriptor", lambda name: watching_method.DESCRIPTOR)
    agent.connect()
    agent.put(one="cat/1")
    agent.order(observes=True)
    agent.look()
    assert agent.sent(Problem, Nothing) == [
        Nothing(stage=1, round=1, observation=making.observation())
    ]


def test_what_waited_when_it_was_forbidden_stays_unsent_until_it_is_allowed(
    trainee: Driven,
) -> None:
    train(trainee)
    for allowed, number in ((False, 0), (True, 1)):
        trainee.rules = replace(trainee.rules, policy=PolicySettings(publish_gradients=allowed))
        trainee.kill()
        trainee.requests.clear()
        trainee.connect()
        trainee.wait(100.0)
        assert len({body.key for body in gradients(trainee)}) == number


def test_nothing_is_sent_where_the_commit_failed(
    trainee: Driven, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainee.order()

    def full(_records, _changes) -> None:
        raise OSError("disk full")

    trainee.requests.clear()
    monkeypatch.setattr(trainee.store, "commit", full)
    with pytest.raises(OSError, match="disk full"):
        trainee.train(gradients=making.gradients())
    assert trainee.requests == []
    assert trainee.store.load().outbox == {}


def test_the_bytes_are_gone_from_the_database_with_the_receipt(trainee: Driven) -> None:
    secret = "a gradient of somebody's picture " * 500
    trainee.order()
    trainee.train(gradients=making.gradients(secret))
    trainee.receipt(making.accepted("gradients", making.part_key(1, 1)))
    trainee.store.close()
    files = [path.read_bytes() for path in trainee.path.parent.glob("agent.db*")]
    assert not any(secret.encode()[:200] in content for content in files)
