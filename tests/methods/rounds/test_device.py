"""The device's half: what is trained on, with which loss, what is answered and remembered."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

from learning.networks.pictures import Pictures
from learning.training.loop import train_alone
from learning.training.settings import TrainingEngineSettings
from methods.errors import MethodError
from methods.network_weights import decode_weights
from methods.rounds import coordinator, device
from methods.rounds.assignment import FISHER, OLD_MODEL, RoundsAssignment
from methods.rounds.memory import read_memory
from methods.training_half import Answer, Begun, LocalData, Order
from schemas.rounds import RoundOrder
from schemas.values import ClassName, Digest
from tests.methods.making import given
from tests.methods.rounds.making import CAT, DOG, OWL, SHAPE, asked, assignment
from tests.schemas.examples import OFFER

PICTURES = Pictures((0.5,), (0.5,))
PATTERNS = {CAT: 0, DOG: 1, OWL: 2}


def images(count: int, *names: ClassName, seed: int = 0) -> LocalData:
    """Pictures with one bright row for each class, and noise of their own."""
    random = np.random.default_rng(seed)
    labels = [names[number % len(names)] for number in range(count)]
    pixels = random.integers(0, 90, (count, *SHAPE)).astype(np.uint8)
    for picture, label in zip(pixels, labels, strict=True):
        picture[0, PATTERNS[label]] += 150
    digests = tuple(Digest.of(f"{seed}/{number}".encode()) for number in range(count))
    return LocalData(pixels, tuple(labels), digests)


def order(
    of: RoundsAssignment,
    *names: ClassName,
    stage: int = 1,
    task: tuple[ClassName, ...] | None = None,
    weights: bytes | None = None,
    extras: dict[str, bytes] | None = None,
    **changes: Any,
) -> Order:
    values: dict[str, Any] = {
        "number": 1,
        "round_of_stage": 1,
        "rounds_of_stage": 2,
        "weights": OFFER,
        "class_names": names or (CAT, DOG),
        "seed": 5,
        "deadline_seconds": 60.0,
    }
    return Order(
        stage=stage,
        stage_class_names=task or names or (CAT, DOG),
        round=RoundOrder.model_validate(values | changes),
        weights=weights or coordinator.first_weights(of),
        extras=extras or {},
        device="dev-1",
    )


def begun(of: RoundsAssignment, asks: Order, data: LocalData, memory: bytes | None = None) -> Begun:
    found = device.begin(of, asks, data, memory, PICTURES)
    assert found is not None
    return found


def learn(
    of: RoundsAssignment, asks: Order, data: LocalData, memory: bytes | None = None
) -> Answer:
    work = begun(of, asks, data, memory)
    return device.finish(of, work, train_alone(work.work, TrainingEngineSettings()))


def test_the_same_order_gives_the_same_answer() -> None:
    of = assignment()
    one, other = (learn(of, order(of), images(20, CAT, DOG)) for _ in range(2))
    assert one.payload == other.payload
    assert one.samples == {CAT: 10, DOG: 10}
    assert one.steps == 2 * 3  # two epochs of batches of 8, 8 and 4


def test_a_fleet_of_identical_devices_is_one_device() -> None:
    of = assignment()
    asks = order(of)
    answers = [given(learn(of, asks, images(24, CAT, DOG)).payload, 24) for _ in range(3)]
    alone = coordinator.combine(of, asked(of), answers[:1])
    assert coordinator.combine(of, asked(of), answers).weights == alone.weights


def test_it_learns() -> None:
    of = assignment(epochs=20)
    data = images(40, CAT, DOG)
    work = begun(of, order(of), data)
    trained = train_alone(work.work, TrainingEngineSettings())
    assert trained.losses[-1] < 0.2 * trained.losses[0]


def test_images_of_earlier_stages_are_left_alone_without_a_memory() -> None:
    of = assignment()
    asks = order(of, CAT, DOG, OWL, stage=2, task=(OWL,))
    assert begun(of, asks, images(30, CAT, DOG, OWL)).samples == {OWL: 10}


def test_a_device_without_images_of_the_stage_has_nothing() -> None:
    of = assignment()
    asks = order(of, CAT, DOG, OWL, stage=2, task=(OWL,))
    assert device.begin(of, asks, images(30, CAT, DOG), None, PICTURES) is None


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
    assert cut.samples == {CAT: 15, DOG: 2, OWL: 2}


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


def kept_accuracy(of: RoundsAssignment) -> float:
    """Learn cat and dog, then owl; return how well cat and dog are still told apart."""
    import torch

    from learning.networks.torch_layers import Mode, forward

    old = images(60, CAT, DOG)
    first = learn(of, order(of, round_of_stage=2), old)
    question = asked(of, round_of_stage=2)
    made = coordinator.combine(of, question, [given(first.payload, 60)])
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
    trained = coordinator.combine(
        of, asked(of), [given(learn(of, order(of), data).payload, 24)]
    ).weights
    rows = {"weights": trained, "round_of_stage": 2, "phase": FISHER}
    work = begun(of, order(of, weights_class_names=(CAT, DOG), **rows), data)
    assert not work.trains
    answer = device.finish(of, work, None)
    question = asked(of, rows=(CAT, DOG), **rows)
    coordinator.check(of, answer.payload, question)
    made = coordinator.combine(of, question, [given(answer.payload, 24)])
    assert set(made.extras) == {FISHER, OLD_MODEL}
    second = order(
        of, CAT, DOG, OWL, stage=2, task=(OWL,), weights=made.weights, extras=dict(made.extras)
    )
    work = begun(of, second, images(24, OWL))
    assert len(work.work.loss.terms) == 2
    assert np.isfinite(train_alone(work.work, TrainingEngineSettings()).losses).all()


def test_a_training_that_leaves_the_numbers_is_no_answer() -> None:
    of = assignment(rate=1e9)
    work = begun(of, order(of), images(20, CAT, DOG))
    trained = train_alone(work.work, TrainingEngineSettings())
    with pytest.raises(MethodError, match="training"):
        device.finish(of, work, trained)


def test_files_that_are_none_are_refused() -> None:
    of = assignment()
    with pytest.raises(MethodError, match="weights"):
        device.begin(of, order(of, weights=b"nothing"), images(9, CAT), None, PICTURES)
    with pytest.raises(MethodError, match="memory"):
        device.begin(of, order(of), images(9, CAT), b"nothing", PICTURES)


def test_the_weights_of_an_answer_are_those_that_were_trained() -> None:
    of = assignment()
    work = begun(of, order(of), images(20, CAT, DOG))
    trained = train_alone(work.work, TrainingEngineSettings())
    answer = device.finish(of, work, trained)
    made = coordinator.combine(of, asked(of), [given(answer.payload, 20)])
    arrays, _ = decode_weights(made.weights, of.network)
    for name, tensor in {**trained.parameters, **trained.buffers}.items():
        assert np.abs(arrays[name] - tensor.numpy()).max() <= 2**-20
