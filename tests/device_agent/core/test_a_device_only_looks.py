"""An order to look at the images alone is carried out and answered once, like one to train."""

import pytest

from fleetledger.device_agent.core import inputs, requests
from fleetledger.device_agent.core.records import OutboxKey
from fleetledger.device_agent.program.status import describe_look, describe_training
from fleetledger.schemas.contributions import Contribution, Nothing
from fleetledger.schemas.rounds import RoundAnswer
from tests.device_agent import making
from tests.device_agent.core.driving import Driven
from tests.device_agent.core.test_a_round_is_answered_once import able


@pytest.fixture
def watcher(agent: Driven) -> Driven:
    """An agent that is connected and has two images."""
    agent.connect()
    agent.put(one="cat/1", two="dog/2")
    return agent


def asked(agent: Driven) -> requests.Train:
    """The newest work that was asked for."""
    return agent.take(requests.Train)[-1]


def test_what_was_seen_is_said_and_what_is_remembered_is_kept(watcher: Driven) -> None:
    watcher.order(observes=True)
    assert asked(watcher).job.observes
    watcher.look(memory="history", entropy=0.7)
    (said,) = watcher.messages()
    assert isinstance(said, Nothing)
    assert (said.stage, said.round, said.reason) == (1, 1, "")
    assert said.observation == making.observation(entropy=0.7)
    assert watcher.state.records.memory == making.digest("history")
    assert making.digest("history") in watcher.take(requests.CleanFiles)[-1].keep


def test_memory_and_answer_outlive_a_kill_together(watcher: Driven) -> None:
    watcher.order(observes=True)
    watcher.look(memory="history")
    (said,) = watcher.messages()
    watcher.kill()
    assert watcher.state.records.memory == making.digest("history")
    watcher.connect()
    assert watcher.messages() == [said]
    watcher.receipt(making.accepted("nothing", making.part_key(1, 1)))
    assert OutboxKey("nothing", making.part_key(1, 1)) not in watcher.state.records.outbox


def test_a_look_that_a_restart_cut_off_begins_again(watcher: Driven) -> None:
    watcher.order(observes=True)
    watcher.take(requests.Train)
    watcher.kill()
    watcher.connect()
    watcher.give(inputs.FetchFinished(making.offer("weights 1").digest))
    watcher.scan()
    assert asked(watcher).job.observes


def test_it_is_not_asked_again_for_that_round(watcher: Driven) -> None:
    watcher.order(observes=True)
    watcher.look()
    watcher.take(requests.Train)
    watcher.order(action=2)
    assert watcher.take(requests.Train) == []


def test_the_next_training_is_given_what_the_look_remembers(watcher: Driven) -> None:
    watcher.order(observes=True)
    watcher.look(memory="history")
    watcher.order(2, action=2)
    work = asked(watcher)
    assert (work.memory, work.job.observes) == (making.digest("history"), False)


def test_what_another_network_made_it_remember_is_not_given(watcher: Driven) -> None:
    watcher.order(observes=True)
    watcher.look(memory="history")
    order = making.round_order(2, observes=True)
    other = making.training(order, action=2)
    watcher.give(
        inputs.Assigned(
            making.COORDINATOR, other.model_copy(update={"lineage": making.digest("other")})
        )
    )
    watcher.give(inputs.FetchFinished(order.weights.digest))
    watcher.scan()
    assert asked(watcher).memory is None


def test_a_look_whose_order_is_over_is_dropped(watcher: Driven) -> None:
    watcher.order(observes=True)
    watcher.give(inputs.Assigned(making.COORDINATOR, making.training(None, action=2)))
    watcher.look(memory="history")
    assert watcher.messages() == []
    assert watcher.state.records.memory is None


def test_a_device_that_is_to_train_after_all_trains(watcher: Driven) -> None:
    watcher.order(observes=True)
    watcher.take(requests.Train)
    watcher.order(action=2)
    watcher.look()
    assert watcher.messages() == []
    watcher.train()
    (answer,) = watcher.messages()
    assert isinstance(answer, Contribution)


def test_a_device_without_images_says_that_it_has_nothing(watcher: Driven) -> None:
    watcher.put()
    watcher.order(observes=True)
    (said,) = watcher.messages()
    assert isinstance(said, Nothing)
    assert (said.round, said.observation) == (1, None)
    assert watcher.take(requests.Train) == []


def test_a_look_that_fails_is_tried_again_and_then_given_up_with_the_reason(
    watcher: Driven,
) -> None:
    watcher.order(observes=True)
    for _ in range(3):
        failed = inputs.TrainingFailed(asked(watcher).job, "memory: too little")
        assert watcher.messages() == []
        watcher.give(failed)
        watcher.wait(100.0)
    (said,) = {body for body in watcher.messages() if isinstance(body, Nothing)}
    assert (said.round, said.reason) == (1, "memory: too little")
    assert watcher.take(requests.Train) == []


def test_a_device_without_torch_says_so_at_once(watcher: Driven) -> None:
    watcher.order(observes=True)
    text = "torch: not installed, and this fleet trains networks"
    watcher.give(inputs.TrainingFailed(asked(watcher).job, text, hopeless=True))
    (said,) = watcher.messages()
    assert isinstance(said, Nothing)
    assert said.reason == text


def test_the_owner_is_told_what_was_seen_also_after_a_restart(watcher: Driven) -> None:
    able(watcher)
    assert describe_look(watcher.state) == ""
    watcher.order(observes=True)
    assert describe_training(watcher.state) == (
        "looks at its images for round 1; no round is answered yet"
    )
    watcher.look(entropy=0.25, images=40)
    watcher.kill()
    assert describe_look(watcher.state) == "round 1: mean entropy 0.250 nats of 40 images"


def test_a_training_says_what_was_seen_before_it(watcher: Driven) -> None:
    watcher.order()
    seen = making.observation(transition=True)
    told = RoundAnswer(number=1, samples=3, steps=2, seconds=0.5, observation=seen)
    watcher.train(answer=told)
    (answer,) = watcher.messages()
    assert isinstance(answer, Contribution)
    assert answer.round is not None
    assert answer.round.observation == seen
    assert describe_look(watcher.state) == (
        "round 1: mean entropy 0.500 nats of 2 images, taken for a new task"
    )
