"""An order of a round is carried out when everything is here, and answered once."""

from dataclasses import replace

import pytest

from fleetledger.device_agent.core import inputs, requests
from fleetledger.device_agent.core.records import OutboxKey
from fleetledger.device_agent.program.status import describe_training
from fleetledger.schemas.contributions import Contribution, Nothing
from fleetledger.schemas.privacy import Masks, Privacy
from fleetledger.schemas.reports import Problem
from fleetledger.schemas.rounds import RoundAnswer
from fleetledger.schemas.values import ClassName
from tests.device_agent import making
from tests.device_agent.core.driving import Driven


@pytest.fixture
def trainee(agent: Driven) -> Driven:
    """An agent that is connected and has three images."""
    agent.connect()
    agent.put(one="cat/1", two="dog/2", three="owl/3")
    return agent


def answers(agent: Driven) -> list[Contribution]:
    return [body for body in agent.sent(Contribution) if isinstance(body, Contribution)]


def test_the_images_of_the_heads_classes_are_trained_on(trainee: Driven) -> None:
    trainee.order()
    (asked,) = trainee.take(requests.Train)
    assert [image.path for image in asked.images] == ["cat/one", "dog/two"]
    assert asked.memory is None
    assert asked.job.key == making.part_key(1, 1)


def test_without_an_image_the_method_is_asked_where_it_may_remember_features(
    trainee: Driven,
) -> None:
    trainee.order(1)
    trainee.train(memory="exemplars as features")
    trainee.take(requests.Train)
    trainee.messages()
    trainee.put()
    trainee.order(2, action=2)
    assert trainee.take(requests.Train) == [], "exemplars that are images are gone with them"
    assert [body.round for body in trainee.messages() if isinstance(body, Nothing)] == [2]
    order = making.round_order(3)
    asked = making.training(order, action=3).model_copy(
        update={"backbone": making.offer("backbone")}
    )
    trainee.give(inputs.Assigned(making.COORDINATOR, asked))
    for offer in asked.offers:
        trainee.give(inputs.FetchFinished(offer.digest))
    trainee.scan()
    (train,) = trainee.take(requests.Train)
    assert (train.images, train.memory) == ((), making.digest("exemplars as features"))


def test_what_the_work_noticed_is_told_once_and_the_answer_stands(trainee: Driven) -> None:
    trainee.order()
    full = Problem(about="feature cache", text="the disk is full; training goes on")
    for _ in range(2):
        trainee.give(inputs.Noticed(full))
    assert trainee.sent(Problem) == [full]
    trainee.train()
    assert len(answers(trainee)) == 1


def test_the_number_of_exemplars_is_known_after_a_restart(trainee: Driven) -> None:
    trainee.order()
    told = RoundAnswer(number=1, samples=3, steps=2, seconds=0.5, stored_samples=7)
    trainee.train(memory="exemplars", answer=told)
    assert trainee.state.records.exemplars == 7
    trainee.kill()
    assert trainee.state.records.exemplars == 7


def test_an_alias_counts_as_the_class_that_it_means(trainee: Driven) -> None:
    trainee.order(aliases={ClassName("owl"): ClassName("dog")})
    (asked,) = trainee.take(requests.Train)
    assert [str(image.class_name) for image in asked.images] == ["cat", "dog", "dog"]


def test_nothing_is_trained_before_every_file_is_here(trainee: Driven) -> None:
    order = making.round_order(extras={"old-model": making.offer("old model")})
    trainee.give(inputs.Assigned(making.COORDINATOR, making.training(order)))
    trainee.scan()
    assert [r.offer for r in trainee.take(requests.FetchFile)] == [order.weights]
    trainee.give(inputs.FetchFinished(order.weights.digest))
    assert [r.offer for r in trainee.take(requests.FetchFile)] == [order.extras["old-model"]]
    assert not trainee.take(requests.Train)
    trainee.give(inputs.FetchFinished(order.extras["old-model"].digest))
    assert trainee.take(requests.Train)


def test_no_statistics_are_computed_for_a_network(trainee: Driven) -> None:
    trainee.order()
    assert not trainee.take(requests.ComputePart)


def test_the_answer_is_in_the_outbox_before_it_is_sent_and_until_its_receipt(
    trainee: Driven,
) -> None:
    trainee.order()
    trainee.train(memory="exemplars")
    (answer,) = answers(trainee)
    assert answer.round is not None
    assert (answer.round.number, answer.payload_kind) == (1, "weights")
    trainee.kill()
    trainee.connect()
    assert answers(trainee) == [answer]
    trainee.receipt(making.accepted("contribution", answer.key))
    assert OutboxKey("contribution", answer.key) not in trainee.state.records.outbox
    assert trainee.state.records.memory == making.digest("exemplars")


def test_a_round_is_answered_once_even_after_a_restart(trainee: Driven) -> None:
    trainee.order()
    trainee.train()
    trainee.kill()
    trainee.connect()
    trainee.give(inputs.FetchFinished(making.offer("weights 1").digest))
    trainee.scan()
    assert trainee.take(requests.Train)[1:] == []


def test_a_training_that_a_restart_cut_off_begins_again(trainee: Driven) -> None:
    trainee.order()
    assert len(trainee.take(requests.Train)) == 1
    trainee.kill()
    trainee.connect()
    trainee.give(inputs.FetchFinished(making.offer("weights 1").digest))
    trainee.scan()
    assert len(trainee.take(requests.Train)) == 1


def test_what_is_remembered_is_given_to_the_next_training_and_kept_from_cleaning(
    trainee: Driven,
) -> None:
    trainee.order()
    trainee.train(memory="exemplars")
    trainee.receipt(making.accepted("contribution", making.part_key(1, 1)))
    trainee.take(requests.Train)
    trainee.order(2, action=2)
    (asked,) = trainee.take(requests.Train)
    assert asked.memory == making.digest("exemplars")
    trainee.train("more", memory="more exemplars")
    (cleaning,) = trainee.take(requests.CleanFiles)[-1:]
    assert making.digest("more exemplars") in cleaning.keep


def test_what_is_remembered_of_one_network_is_not_given_to_another(trainee: Driven) -> None:
    trainee.order()
    trainee.train(memory="exemplars")
    trainee.receipt(making.accepted("contribution", making.part_key(1, 1)))
    trainee.take(requests.Train)
    for number, (lineage, expected) in enumerate(
        (("another network", None), ("first weights", making.digest("exemplars"))), start=2
    ):
        order = making.round_order(number)
        other = making.training(order, action=number).model_copy(
            update={"lineage": making.digest(lineage)}
        )
        trainee.give(inputs.Assigned(making.COORDINATOR, other))
        trainee.give(inputs.FetchFinished(order.weights.digest))
        trainee.scan()
        (asked,) = trainee.take(requests.Train)
        assert asked.memory == expected
        trainee.give(inputs.NothingToTrain(asked.job))


def test_the_result_of_an_order_that_is_over_is_dropped(trainee: Driven) -> None:
    trainee.order()
    trainee.give(inputs.Assigned(making.COORDINATOR, making.training(None, action=2)))
    trainee.train(memory="exemplars")
    assert not answers(trainee)
    assert trainee.state.records.memory is None
    trainee.order(2, action=3)
    assert trainee.take(requests.Train)[-1].job.key.part == 2


def test_a_device_without_images_says_so_once(trainee: Driven) -> None:
    trainee.put(three="owl/3")
    trainee.order()
    (said,) = trainee.sent(Nothing)
    assert isinstance(said, Nothing)
    assert (said.stage, said.round) == (1, 1)
    trainee.receipt(making.accepted("nothing", making.part_key(1, 1)))
    trainee.order(2, action=2)
    (again,) = trainee.sent(Nothing)
    assert isinstance(again, Nothing)
    assert again.round == 2


def test_a_device_whose_images_do_not_decode_says_so_too(trainee: Driven) -> None:
    trainee.order()
    job = trainee.state.training.job
    assert job is not None
    trainee.give(inputs.NothingToTrain(job, ((making.digest("1"), "broken"),)))
    (said, problem) = trainee.sent(Nothing, Problem)
    assert isinstance(said, Nothing)
    assert isinstance(problem, Problem)
    assert "cat/one: broken" in problem.text


def test_a_training_that_fails_is_told_and_tried_again_later(trainee: Driven) -> None:
    trainee.order()
    job = trainee.state.training.job
    assert job is not None
    trainee.take(requests.Train)
    trainee.give(inputs.TrainingFailed(job, "memory: too little"))
    (problem,) = trainee.sent(Problem)
    assert isinstance(problem, Problem)
    assert "too little" in problem.text
    assert not trainee.take(requests.Train)
    trainee.wait(10)
    assert trainee.take(requests.Train)


def test_after_some_tries_the_device_says_that_it_cannot_train(trainee: Driven) -> None:
    trainee.order()
    for _ in range(3):
        (asked,) = trainee.take(requests.Train)
        assert not trainee.sent(Nothing)
        trainee.give(inputs.TrainingFailed(asked.job, "memory: too little"))
        trainee.wait(60)
    assert not trainee.take(requests.Train)
    said = trainee.sent(Nothing)[0]
    assert isinstance(said, Nothing)
    assert (said.round, said.reason) == (1, "memory: too little")
    trainee.receipt(making.accepted("nothing", making.part_key(1, 1)))
    trainee.order(2, action=2)
    assert trainee.take(requests.Train)


def test_a_training_that_would_end_alike_is_not_tried_again(trainee: Driven) -> None:
    trainee.order()
    (asked,) = trainee.take(requests.Train)
    failed = inputs.TrainingFailed(asked.job, "weights: not finite", hopeless=True)
    trainee.give(failed)
    (said,) = trainee.sent(Nothing)
    assert isinstance(said, Nothing)
    assert said.reason == "weights: not finite"
    trainee.kill()
    trainee.connect()
    (again,) = trainee.sent(Nothing)
    assert again == said
    trainee.wait(100)
    assert not trainee.take(requests.Train)


def test_a_failure_of_an_order_that_is_over_is_told_and_forgotten(trainee: Driven) -> None:
    trainee.order()
    (asked,) = trainee.take(requests.Train)
    trainee.give(inputs.Assigned(making.COORDINATOR, making.training(None, action=2)))
    trainee.give(inputs.TrainingFailed(asked.job, "weights: not finite", hopeless=True))
    assert not trainee.sent(Nothing)
    trainee.order(2, action=3)
    assert trainee.take(requests.Train)


def test_an_answer_whose_file_is_gone_is_trained_anew(trainee: Driven) -> None:
    trainee.order()
    payload = making.offer("large weights")
    trainee.train("large weights", attached=None, offer=payload)
    assert answers(trainee)
    trainee.take(requests.Train)
    trainee.give(inputs.FileDamaged(payload.digest))
    trainee.wait(0)
    assert trainee.take(requests.Train)


def test_part_numbers_of_statistics_stay_clear_of_rounds(trainee: Driven) -> None:
    trainee.order(7)
    trainee.train()
    trainee.receipt(making.accepted("contribution", making.part_key(1, 7)))
    trainee.assign("cat", "dog", action=5)
    job = trainee.job()
    assert job is not None
    assert job.key.part == 8


def able(agent: Driven) -> Driven:
    """Let the agent have what training needs."""
    features = frozenset({"numpy", "onnxruntime", "torch"})
    capabilities = making.CAPABILITIES.model_copy(update={"features": features})
    agent.state.identity = replace(agent.state.identity, capabilities=capabilities)
    return agent


def test_the_owner_is_told_what_is_trained_and_answered(trainee: Driven) -> None:
    able(trainee)
    assert describe_training(trainee.state) == ""
    trainee.order()
    assert describe_training(trainee.state) == (
        "at round 1 (phase train); no round is answered yet"
    )
    trainee.train()
    assert describe_training(trainee.state) == (
        "waits for a round; round 1 is answered, without a receipt yet"
    )
    trainee.receipt(making.accepted("contribution", making.part_key(1, 1)))
    assert describe_training(trainee.state) == "waits for a round; round 1 is answered"
    trainee.take(requests.Train)
    trainee.order(2, action=2)
    (asked,) = trainee.take(requests.Train)
    trainee.give(inputs.TrainingFailed(asked.job, "memory: too little"))
    assert describe_training(trainee.state) == (
        "failed 1 time, will be tried again; round 1 is answered"
    )


def test_the_owner_is_told_that_a_device_without_torch_is_never_asked(trainee: Driven) -> None:
    trainee.give(inputs.Assigned(making.COORDINATOR, making.training(None)))
    assert describe_training(trainee.state).startswith("never asked: torch is not installed")


def masked(agent: Driven, action: int = 1, number: int = 1) -> None:
    """Ask for a round whose answers are summed behind masks."""
    asked = making.training(making.round_order(number), action)
    privacy = Privacy(masks=Masks(least=3, most=8))
    asked = asked.model_copy(update={"privacy": privacy})
    agent.give(inputs.Assigned(making.COORDINATOR, asked))
    for offer in asked.offers:
        agent.give(inputs.FetchFinished(offer.digest))
    agent.scan()


def test_an_answer_behind_masks_waits_for_a_cohort_and_tells_nothing(trainee: Driven) -> None:
    masked(trainee)
    trainee.train(offer=making.offer("weights"), payload_kind="weights")
    assert answers(trainee) == []
    (work,) = trainee.take(requests.WorkForCohort)
    assert work.job.step == "join"
    assert (work.part.round, work.part.weight) == (1, 3)
    assert work.part.payload is not None
    trainee.here = frozenset({work.part.payload})
    trainee.kill()
    trainee.connect()
    assert answers(trainee) == []
    assert 1 in trainee.state.records.answered, "it is not trained again"


def test_an_answer_that_was_in_no_cohort_is_dropped_once_its_round_is_over(
    trainee: Driven,
) -> None:
    masked(trainee)
    trainee.train(offer=making.offer("weights"), payload_kind="weights")
    (work,) = trainee.take(requests.WorkForCohort)
    trainee.give(inputs.CohortJobFailed(work.job, "no room"))
    masked(trainee, action=2, number=2)
    trainee.wait(60)
    assert not trainee.state.records.ready
