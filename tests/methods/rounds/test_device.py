"""The device's half: what is trained on, with which loss, what is answered and remembered."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fleetledger.learning.losses.terms import Distillation
from fleetledger.learning.training.loop import train_alone
from fleetledger.learning.training.settings import TrainingEngineSettings
from fleetledger.methods.errors import MethodError
from fleetledger.methods.rounds.assignment import FISHER, OLD_MODEL, RoundsAssignment
from fleetledger.methods.rounds.coordinator import COORDINATOR
from fleetledger.methods.rounds.device import DEVICE
from fleetledger.methods.rounds.memory import read_memory
from fleetledger.methods.rounds.messages import received
from fleetledger.methods.rounds.terms import PAST, SERVER
from fleetledger.methods.training.exchange import LocalData
from fleetledger.methods.training.network_weights import decode_weights
from tests.methods.making import given
from tests.methods.rounds.making import CAT, DOG, OWL, asked, assignment, images
from tests.methods.rounds.training import PICTURES, begun, learn, order

pytestmark = pytest.mark.torch


def test_a_last_batch_may_be_smaller() -> None:
    of = assignment()
    one = learn(of, order(of), images(20, CAT, DOG))
    assert one.samples == {CAT: 10, DOG: 10}
    assert one.steps == 2 * 3  # two epochs of batches of 8, 8 and 4


def test_it_learns() -> None:
    of = assignment(epochs=20)
    data = images(40, CAT, DOG)
    work = begun(of, order(of), data)
    trained = train_alone(work.work, TrainingEngineSettings())
    assert trained.losses[-1] < 0.2 * trained.losses[0]


@pytest.mark.parametrize(
    ("round_of_stage", "rate"), [(1, 0.1), (50, 0.1), (51, 0.05), (75, 0.05), (76, 0.025)]
)
def test_the_rate_is_lower_after_the_rounds_that_say_so(round_of_stage: int, rate: float) -> None:
    of = assignment(rate=0.1, epochs=3, decrease_rounds=(50, 75), decrease_factor=0.5)
    asks = order(of, round_of_stage=round_of_stage, rounds_of_stage=100)
    optimiser = begun(of, asks, images(10, CAT, DOG)).work.optimiser
    assert optimiser.rates == pytest.approx((rate,) * 3)


def test_images_of_earlier_stages_are_left_alone_without_a_memory() -> None:
    of = assignment()
    asks = order(of, CAT, DOG, OWL, stage=2, task=(OWL,))
    assert begun(of, asks, images(30, CAT, DOG, OWL)).samples == {OWL: 10}


def test_a_device_without_images_of_the_stage_has_nothing() -> None:
    of = assignment()
    asks = order(of, CAT, DOG, OWL, stage=2, task=(OWL,))
    assert DEVICE.begin(of, asks, images(30, CAT, DOG), None, PICTURES) is None


def test_exemplars_of_the_stage_before_come_with_the_next() -> None:
    of = assignment(preset="fedavg-exemplars", exemplars=8)
    data = images(30, CAT, DOG)
    first = learn(of, order(of), data)
    assert first.stored_samples == 0
    asks = order(of, CAT, DOG, OWL, stage=2, task=(OWL,))
    more = images(12, OWL, seed=1)
    both = LocalData(
        np.concatenate([data.inputs, more.inputs]),
        data.class_names + more.class_names,
        data.digests + more.digests,
    )
    second = learn(of, asks, both, first.memory)
    assert second.samples == {CAT: 4, DOG: 4, OWL: 12}
    assert second.stored_samples == 8
    kept = read_memory(second.memory, of.network)
    assert set(kept.exemplars) == {CAT, DOG}
    assert kept.task == (OWL,)
    third = order(of, CAT, DOG, OWL, stage=3, task=(CAT,))
    cut = begun(of, third, both, second.memory)
    assert cut.samples == {CAT: 2, DOG: 2, OWL: 2}


def test_as_many_exemplars_of_every_class_stay_whatever_their_number() -> None:
    of = assignment(preset="fedavg-exemplars", exemplars_per_class=3)
    data = images(30, CAT, DOG, OWL)
    memory = None
    for stage, (name, kept) in enumerate(((CAT, 0), (DOG, 3), (OWL, 6)), start=1):
        asks = order(of, CAT, DOG, OWL, stage=stage, task=(name,))
        done = learn(of, asks, data, memory)
        assert done.stored_samples == kept
        memory = done.memory


def test_of_a_class_that_returns_new_images_and_exemplars_are_trained() -> None:
    of = assignment(preset="fedavg-exemplars", exemplars=6)
    old, owls, new = images(20, CAT, DOG), images(10, OWL, seed=1), images(7, CAT, seed=2)
    first = learn(of, order(of), old)
    second = learn(
        of,
        order(of, CAT, DOG, OWL, stage=2, task=(OWL, CAT)),
        joined(old, owls, new),
        first.memory,
    )
    assert second.samples == {CAT: 7 + 3, DOG: 3, OWL: 10}
    again = learn(
        of,
        order(of, CAT, DOG, OWL, stage=2, task=(OWL, CAT), number=3),
        joined(old, owls, new),
        second.memory,
    )
    assert again.samples == second.samples  # they are new for the whole stage
    third = begun(
        of,
        order(of, CAT, DOG, OWL, stage=3, task=(DOG,)),
        joined(old, owls, new, images(5, DOG, seed=3)),
        again.memory,
    )
    assert third.samples == {CAT: 2, DOG: 5 + 2, OWL: 2}
    kept = third.state.memory
    cats = {*images(7, CAT, seed=2).digests, *read_memory(second.memory, of.network).exemplars[CAT]}
    assert set(kept.exemplars[CAT]) <= cats  # of what was trained of it last, and its exemplars
    assert kept.met.stages((CAT, OWL), (new.digests[0], owls.digests[0])) == [2, 2]


def joined(*parts: LocalData) -> LocalData:
    return LocalData(
        np.concatenate([part.inputs for part in parts]),
        sum((part.class_names for part in parts), ()),
        sum((part.digests for part in parts), ()),
    )


def test_the_scope_of_a_task_leaves_other_rows_as_they_were() -> None:
    of = assignment(scope="task")
    asks = order(of, CAT, DOG, OWL, stage=2, task=(OWL,))
    work = begun(of, asks, images(20, OWL))
    trained = train_alone(work.work, TrainingEngineSettings())
    before, after = work.work.parameters["head.weight"], trained.parameters["head.weight"]
    assert (before[:2] == after[:2]).all()


def test_fedprox_stays_nearer_to_what_was_sent() -> None:
    data = images(40, CAT, DOG)

    def far(**settings: Any) -> float:
        of = assignment(epochs=10, **settings)
        work = begun(of, order(of), data)
        trained = train_alone(work.work, TrainingEngineSettings())
        return float(
            sum(
                (trained.parameters[name] - tensor).square().sum()
                for name, tensor in work.work.parameters.items()
            )
        )

    assert far(preset="fedprox", proximal=5.0) < 0.5 * far()


@pytest.mark.parametrize("preset", ["fed-lwf", "icarl", "flwf-2t"])
def test_a_teacher_keeps_old_classes_apart(preset: str) -> None:
    """What was learned is forgotten less with the preset than without its distillation."""
    # One new class alone would leave a task's cross-entropy without a gradient.
    settings = {"epochs": 10, "rate": 0.1, "exemplars": 0, "scope": "seen"}
    with_teacher = kept_accuracy(assignment(preset=preset, **settings))
    assert with_teacher >= kept_accuracy(assignment(**settings))


def test_flwf_2ts_past_client_is_what_the_device_trained_last_in_the_stage_before() -> None:
    """It teaches by a quarter, the server's model by another; who has no past has no such term."""
    of = assignment(preset="flwf-2t", epochs=1)
    old, new = images(30, CAT, DOG), images(30, OWL, seed=2)
    first = learn(of, order(of), old)
    second = learn(of, order(of, number=2, round_of_stage=2), old, first.memory)
    before = [read_memory(one.memory, of.network).latest for one in (first, second)]
    assert before[0] is not None
    assert before[1] is not None
    body = [name for name in before[1].arrays if not name.startswith("head.")]
    assert any(not np.array_equal(before[0].arrays[n], before[1].arrays[n]) for n in body)
    made = COORDINATOR.combine(of, asked(of, round_of_stage=2), [given(second.payload, 30)])
    sent = {"weights": made.weights, "weights_class_names": (CAT, DOG), "extras": {**made.extras}}
    asks = order(of, CAT, DOG, OWL, stage=2, task=(OWL,), **sent)

    def teachers(memory: bytes | None) -> tuple[dict[str, float], dict[str, Any]]:
        work = begun(of, asks, new, memory).work
        terms = [one for one in work.loss.terms if isinstance(one.term, Distillation)]
        return {one.term.teacher: one.factor for one in terms}, work.frozen

    factors, frozen = teachers(second.memory)
    assert factors == {PAST: 0.25, SERVER: 0.25}
    teacher = {**frozen[PAST]["parameters"], **frozen[PAST]["buffers"]}
    assert teacher.keys() == before[1].arrays.keys()
    for name, held in before[1].arrays.items():
        assert np.array_equal(teacher[name].numpy(), held)
    third = learn(of, asks, new, second.memory)
    assert teachers(third.memory)[0] == factors, "the stage has begun, and its past stays"
    kept = read_memory(third.memory, of.network)
    assert kept.past is not None
    assert all(np.array_equal(kept.past.arrays[n], before[1].arrays[n]) for n in body)
    assert teachers(None)[0] == {SERVER: 0.25}


def kept_accuracy(of: RoundsAssignment) -> float:
    """Learn cat and dog, then owl; return how well cat and dog are still told apart."""
    import torch

    from fleetledger.learning.networks.torch_layers import Mode, forward

    old = images(60, CAT, DOG)
    first = learn(of, order(of, round_of_stage=2), old)
    question = asked(of, round_of_stage=2)
    made = COORDINATOR.combine(of, question, [given(first.payload, 60)])
    asks = order(
        of,
        CAT,
        DOG,
        OWL,
        stage=2,
        task=(OWL,),
        weights=made.weights,
        weights_class_names=(CAT, DOG),
        extras=dict(made.extras),
    )
    work = begun(of, asks, images(60, OWL, seed=2), first.memory)
    trained = train_alone(work.work, TrainingEngineSettings())
    inputs = PICTURES.normalise(torch.from_numpy(old.inputs))
    outputs = forward(of.network, trained.parameters, trained.buffers, inputs, Mode())
    answers = outputs.logits[:, :2].argmax(dim=1).numpy()
    right = np.array([0 if name == CAT else 1 for name in old.class_names])
    return float((answers == right).mean())


def test_the_fisher_phase_measures_and_trains_nothing() -> None:
    of = assignment(preset="fed-ewc")
    data = images(24, CAT, DOG)
    trained = COORDINATOR.combine(
        of, asked(of), [given(learn(of, order(of), data).payload, 24)]
    ).weights
    rows = {"weights": trained, "round_of_stage": 2, "phase": FISHER}
    work = begun(of, order(of, weights_class_names=(CAT, DOG), **rows), data)
    assert work.work is None
    answer = DEVICE.measured(of, work)
    question = asked(of, rows=(CAT, DOG), **rows)
    COORDINATOR.check(of, answer.payload, question)
    made = COORDINATOR.combine(of, question, [given(answer.payload, 24)])
    assert set(made.extras) == {FISHER, OLD_MODEL}
    second = order(
        of, CAT, DOG, OWL, stage=2, task=(OWL,), weights=made.weights, extras=dict(made.extras)
    )
    work = begun(of, second, images(24, OWL))
    assert len(work.work.loss.terms) == 2
    assert np.isfinite(train_alone(work.work, TrainingEngineSettings()).losses).all()


def test_a_head_that_is_not_trained_stays_bit_for_bit_and_is_in_no_answer() -> None:
    of = assignment(trained="body")
    asks = order(of)
    update = learn(of, asks, images(40, CAT, DOG))
    question = asked(of)
    made = COORDINATOR.combine(of, question, [given(update.payload)])
    before = received(of, question.weights, (), question.class_names)
    after, names = decode_weights(made.weights, of.network)
    assert names == (CAT, DOG)
    same = {name for name in after if np.array_equal(after[name], before[name])}
    assert {"head.weight", "head.bias"} <= same
    assert not same & {"linear0.weight", "linear1.weight"}
    whole = learn(assignment(), order(assignment()), images(40, CAT, DOG))
    assert len(update.payload) < len(whole.payload)


@pytest.mark.parametrize("other", [{"ewc": 1.0}, {"head": "hidden"}, {"preset": "flwf-2t"}])
def test_a_head_cannot_stay_where_something_is_about_all_of_the_network(other: Any) -> None:
    with pytest.raises(MethodError, match="trained: 'body' leaves the head as it is"):
        assignment(trained="body", **other)


def test_with_a_device_s_prior_nothing_is_learned_against_classes_that_it_does_not_have() -> None:
    cats = images(20, CAT)
    moved = {}
    for prior in ("none", "device"):
        of = assignment(ce_prior=prior)
        update = learn(of, order(of), cats)
        made = COORDINATOR.combine(of, asked(of), [given(update.payload)])
        arrays, _ = decode_weights(made.weights, of.network)
        before = received(of, asked(of).weights, (), (CAT, DOG))
        moved[prior] = np.abs(arrays["head.weight"] - before["head.weight"]).max()
    assert moved["none"] > 1e-3
    assert moved["device"] < 1e-6  # but for the grid of answers
