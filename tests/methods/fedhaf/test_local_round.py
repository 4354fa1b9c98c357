"""A local round against the equations, and what its works train and leave alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from fleetledger.learning.losses.composition import FIXED
from fleetledger.learning.networks.conversion import to_arrays, to_tensors
from fleetledger.learning.networks.inference import Inference
from fleetledger.learning.training.chance import Chance
from fleetledger.learning.training.loop import train_alone
from fleetledger.learning.training.settings import TrainingEngineSettings
from fleetledger.learning.training.stacking import signature
from fleetledger.learning.training.work import Data, Work
from fleetledger.methods.errors import MethodError
from fleetledger.methods.fedhaf.coordinator import COORDINATOR
from fleetledger.methods.fedhaf.device import DEVICE
from fleetledger.methods.fedhaf.messages import frame_of
from fleetledger.methods.training.exchange import FitJob
from fleetledger.methods.training.network_weights import decode_weights
from tests.methods.fedhaf.making import (
    ANT,
    BEE,
    CAT,
    DOG,
    EVERY,
    asked,
    assignment,
    order,
    samples,
    sent,
)
from tests.methods.fedhaf.slow import Round
from tests.methods.fedhaf.training import Taught, begun, carried_out
from tests.methods.making import given

pytestmark = pytest.mark.torch


def works(first: FitJob) -> list[tuple[FitJob, Any]]:
    """Every work of a round with what it trained."""
    done = []
    following: FitJob | None = first
    while following is not None:
        trained = train_alone(following.work, TrainingEngineSettings())
        done.append((following, trained))
        following = following.following(trained) if following.following else None
    return done


@pytest.mark.parametrize("exemplars_too", [False, True])
def test_a_local_round_is_what_the_equations_say(exemplars_too):
    more = {"ce_scope": "own-task", "ce_rows": "all"} if exemplars_too else {}
    of = assignment(dropout=0.0, head_epochs=4, adapter_epochs=3, adapter_rate=0.01, **more)
    fleet = Taught(of)
    work = fleet.begun().work
    old = work.data.extras["old"] > 0
    assert (int(old.sum()), len(old)) == (4, 18)

    def shuffled(part: str, epoch: int) -> np.ndarray:
        chance = Chance(5, "dev-1", 2, fleet.order.round.number, f"train-{part}")
        return chance.shuffled(epoch, len(old))

    targets = work.data.targets.tolist()
    slow = Round(work.data.inputs, targets, old.tolist(), 2, of.settings.batch, shuffled)
    slow.exemplars_too = exemplars_too
    begins = sent(of, fleet.question)
    before, _ = decode_weights(fleet.made.weights, of.network)
    rates = ("head_rate", "adapter_rate", "head_epochs", "adapter_epochs")
    expected = slow.train(begins, before, **{name: getattr(of.settings, name) for name in rates})

    answer = fleet.learn()
    frame = frame_of(begins)
    found = frame.mean([given(answer.payload)], weighted=True).arrays
    assert set(found) == set(expected)
    for name, array in expected.items():
        assert np.abs(found[name] - array).max() < 2e-5 * max(1, np.abs(array).max()), name
        if not name.endswith(".bias"):  # a normalisation takes most of them out again
            assert np.abs(begins[name] - array).max() > 1e-4, f"{name} did not move"


def test_calibrated_is_one_loop_by_a_cross_entropy_with_the_devices_counts():
    how = {"prior_strength": 0.8, "feature_balance": 0.1, "head_rate": 0.01, "batch": 9}
    of = assignment(preset="calibrated", dropout=0.0, **how)
    fleet = Taught(of)
    settings, data = of.settings, fleet.begun().work.data
    old = data.extras["old"] > 0

    def shuffled(part: str, epoch: int) -> np.ndarray:
        chance = Chance(5, "dev-1", 2, fleet.order.round.number, f"train-{part}")
        return chance.shuffled(epoch, len(old))

    slow = Round(data.inputs, data.targets.tolist(), old.tolist(), 2, settings.batch, shuffled)
    begins = sent(of, fleet.question)
    before, _ = decode_weights(fleet.made.weights, of.network)
    expected = slow.train_together(
        begins,
        before,
        strength=settings.prior_strength,
        distance=settings.feature_distance,
        balance=settings.feature_balance,
        rate=settings.head_rate,
        epochs=settings.head_epochs,
    )
    frame = frame_of(begins)
    found = frame.mean([given(fleet.learn().payload)], weighted=True).arrays
    for name, array in expected.items():
        assert np.abs(found[name] - array).max() < 2e-5, name


def test_stage_one_trains_the_head_and_leaves_the_adapter_to_the_last_bit():
    fleet = Taught(assignment())
    (first, trained), (second, _) = works(fleet.begun())
    assert all(name.startswith("head.") for name in trained.parameters)
    begins = sent(fleet.of, fleet.question)
    for name, value in {**first.work.frozen[FIXED], **trained.buffers}.items():
        if not name.startswith("head."):
            assert np.array_equal(value, begins[name]), name
    assert not np.array_equal(
        trained.buffers["head.norm.running_mean"], first.work.buffers["head.norm.running_mean"]
    )
    assert set(second.work.parameters) == set(first.work.frozen[FIXED])


def test_stage_two_trains_the_adapter_and_leaves_the_head_to_the_last_bit():
    fleet = Taught(assignment())
    (_, after_one), (second, after_two) = works(fleet.begun())
    assert not any(name.startswith("head.") for name in after_two.parameters)
    for name, value in second.work.frozen[FIXED].items():
        assert torch.equal(value, after_one.parameters[name]), name
    for name, value in after_two.buffers.items():
        assert torch.equal(value, after_one.buffers[name]) == name.startswith("head."), name
    moved = to_arrays(after_two.parameters)
    assert all(
        not np.array_equal(moved[name], sent(fleet.of, fleet.question)[name]) for name in moved
    )


def test_the_answer_has_the_head_of_stage_one_and_the_adapter_of_stage_two():
    fleet = Taught(assignment())
    (_, one), (last, two) = works(fleet.begun())
    answer = DEVICE.finish(fleet.of, last, two)
    whole = to_arrays({**one.parameters, **two.parameters}, two.buffers)
    assert answer.payload == frame_of(sent(fleet.of, fleet.question)).encode(whole)
    assert answer.steps == one.steps + two.steps == (3 + 2) * 3
    assert answer.loss == one.losses[-1]


def test_the_first_task_trains_both_together_and_skips_the_second_stage():
    of = assignment()
    ((only_one, trained),) = works(begun(of, order(asked(of)), samples(20, ANT, BEE)))
    assert set(trained.parameters) | set(trained.buffers) == set(of.network.shapes(2))
    assert only_one.work.frozen[FIXED] == {}
    assert only_one.work.optimiser.rates == (0.05,) * 3
    assert [type(part.term).__name__ for part in only_one.work.loss.terms] == ["CrossEntropy"]
    before = only_one.work.parameters
    assert all(not torch.equal(trained.parameters[name], before[name]) for name in before)


def test_the_same_order_gives_the_same_answer():
    one, other = (Taught(assignment()).learn() for _ in range(2))
    assert one.payload == other.payload
    assert one.memory == other.memory
    assert one.samples == {ANT: 2, BEE: 2, CAT: 7, DOG: 7}
    assert one.stored_samples == 4


def ragged(of: Any) -> list[FitJob]:
    """Devices with many samples, few, no exemplars, and exemplars alone."""
    fleet = Taught(of)
    full = fleet.begun()
    few = fleet.begun(samples(3, CAT, DOG, seed=4))
    asks = order(fleet.question, CAT, DOG, stage=2, device_name="dev-9")
    fresh = begun(of, asks, samples(21, CAT, DOG, seed=7))
    alone = fleet.begun(fleet.old)
    return [full, few, fresh, alone]


def in_float64(work: Work) -> Work:
    """The work in numbers by which rounding does not grow to something visible."""

    def exact(tree: Any) -> Any:
        if isinstance(tree, Mapping):
            return {name: exact(leaf) for name, leaf in tree.items()}
        return tree.double() if tree.is_floating_point() else tree

    data = Data(exact(work.data.inputs), work.data.targets, exact(work.data.extras))
    state = {name: exact(getattr(work, name)) for name in ("parameters", "buffers", "frozen")}
    return replace(work, data=data, **state)


@pytest.mark.parametrize(
    "preset", ["fedhaf", "replay", "calibrated", "without-stages", "without-fam"]
)
def test_a_stack_of_devices_is_the_loop(preset):
    of = assignment(preset=preset, head_rate=0.01)
    loop, stack = (carried_out(ragged(of), engine, in_float64) for engine in ("loop", "stack"))
    for (one, left), (other, right) in zip(loop, stack, strict=True):
        assert left.steps == right.steps > 0
        assert set(one.work.parameters) == set(other.work.parameters) == set(left.parameters)
        for part in ("parameters", "buffers"):
            for name, value in getattr(left, part).items():
                assert (value - getattr(right, part)[name]).abs().max() < 1e-7, name
        for name, value in one.work.frozen[FIXED].items():
            assert (value - other.work.frozen[FIXED][name]).abs().max() < 1e-7, name


def test_devices_of_a_stack_have_priors_of_their_own():
    first = ragged(assignment(preset="calibrated", prior_absent=0.0))
    assert len({signature(item.work) for item in first}) == 1
    there = [(item.work.frozen["prior"].isfinite()).tolist() for item in first]
    everything, only_new, only_old = (
        [True] * 4,
        [False, False, True, True],
        [True, True, False, False],
    )
    assert there == [everything, only_new, only_new, only_old]


def test_devices_that_learn_something_share_a_stack_in_both_stages():
    first = ragged(assignment())
    assert len({signature(item.work) for item in first}) == 1
    second = [begun for begun, _ in carried_out(first)]
    assert len({signature(item.work) for item in second if item.work.frozen[FIXED]}) == 2
    adapting = [item for item in second if "linear0.weight" in item.work.parameters]
    assert len({signature(item.work) for item in adapting}) == 1
    assert len(adapting) == 2  # two devices have no exemplars


def test_devices_of_one_round_share_what_they_do_not_train():
    one, other = (item.work for item in ragged(assignment())[:2])
    for part in (one.frozen[FIXED], one.frozen["old_model"]["parameters"]):
        assert part
    assert all(one.frozen[FIXED][name] is other.frozen[FIXED][name] for name in one.frozen[FIXED])
    teachers = [work.frozen["old_model"]["buffers"] for work in (one, other)]
    assert all(teachers[0][name] is teachers[1][name] for name in teachers[0])


def test_rates_may_fall_over_a_stages_rounds():
    of = assignment(schedule="cosine")
    data = samples(20, ANT, BEE)
    first = begun(of, order(asked(of)), data)
    second = begun(of, order(asked(of, round_of_stage=2)), data)
    assert first.work.optimiser.rates == (0.05,) * 3
    assert second.work.optimiser.rates == pytest.approx((0.025,) * 3)


def test_the_printed_form_diverges_and_the_device_says_so():
    """Section 13's observation: a sum over 256 dimensions, l_FD = 2, rate 0.02."""
    of = assignment(preset="literal", width=256, adapter_epochs=60, exemplar_ratio=1.0)
    fleet = Taught(of)
    with pytest.raises(MethodError, match=r"training: weights: '.*' holds (nan|inf|[\d.e+]+)"):
        fleet.learn()
    calm = Taught(assignment(width=256, adapter_epochs=60, exemplar_ratio=1.0))
    COORDINATOR.check(calm.of, calm.learn().payload, calm.question)


def test_anything_but_features_of_the_backbone_is_refused():
    of = assignment()
    wide = samples(4, ANT, BEE)
    for inputs in (np.zeros((4, 3, 8, 8), np.uint8), np.zeros((4, 7), np.float32)):
        data = type(wide)(inputs, wide.class_names, wide.digests)
        with pytest.raises(MethodError, match="features of its backbone"):
            DEVICE.begin(of, order(asked(of)), data, None, None)


def test_features_that_are_no_numbers_are_refused():
    wrong = samples(4, ANT, BEE)
    wrong.inputs[1, 2] = np.nan
    with pytest.raises(MethodError, match="exemplars: features"):
        DEVICE.begin(assignment(), order(asked(assignment())), wrong, None, None)


def test_exemplars_in_the_cross_entropy_keep_old_classes():
    settings = {"head_epochs": 40, "head_rate": 0.01, "batch": 64, "hidden": 32, "width": 16}

    def accuracy(**more: Any) -> float:
        of = assignment(**settings, **more)
        fleet = Taught(of)
        made = COORDINATOR.combine(of, fleet.question, [given(fleet.learn().payload)])
        network, arrays, names = COORDINATOR.network_of(of, made.weights)
        assert names == EVERY
        test = samples(80, *EVERY, seed=9)
        inputs = torch.from_numpy(test.inputs)
        best = Inference()(network, *to_tensors(arrays), inputs).logits.argmax(dim=1)
        answers = [names[row] for row in best.tolist()]
        return float(
            np.mean([one == other for one, other in zip(answers, test.class_names, strict=True)])
        )

    with_replay = accuracy(preset="replay", exemplar_ratio=1.0)
    without = accuracy(preset="without-ce", exemplar_ratio=0)
    assert with_replay > 0.7
    assert with_replay > without + 0.1
