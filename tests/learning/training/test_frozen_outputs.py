"""What frozen networks make of samples is computed once, and training goes on as if it were not."""

from dataclasses import replace

import pytest
import torch

from fleetledger.learning.losses import composition
from fleetledger.learning.losses.composition import FIXED, ComposedLoss, Weighted
from fleetledger.learning.losses.terms import CrossEntropy, Distillation, FeatureDistance
from fleetledger.learning.networks.fixed_features import IdentityBody
from fleetledger.learning.networks.pictures import Pictures
from fleetledger.learning.training.engine import train
from fleetledger.learning.training.frozen_outputs import with_frozen_outputs
from fleetledger.learning.training.memory import sample_bytes
from fleetledger.learning.training.settings import TrainingEngineSettings
from fleetledger.learning.training.stack import train_stacked
from fleetledger.learning.training.work import Batching, Extras
from tests.learning.training.agents import largest_difference, make_works
from tests.learning.training.test_two_stages import (
    OLD_CLASSES,
    SIZES,
    first_works,
    second,
    tensors,
)

pytestmark = pytest.mark.torch

LOOP, STACK = TrainingEngineSettings("loop"), TrainingEngineSettings("stack")


def in_every_step(work):
    """Return the work with a loss that computes everything anew in every step."""

    def loss(*given):
        return work.loss(*given)

    loss.stackable = False
    return replace(work, loss=loss)


def taught_works():
    """Return works in which each agent has a teacher of its own, and two terms look at it."""
    works = first_works()
    network = works[0].loss.network
    terms = (
        Weighted(1.0, CrossEntropy()),
        Weighted(0.5, Distillation("old")),
        Weighted(0.1, FeatureDistance("old", rows="exemplar")),
    )
    made = []
    for seed, work in enumerate(works):
        parameters, buffers = tensors(seed + 3, torch.float64, OLD_CLASSES)
        own, _ = tensors(1, torch.float64)
        frozen = {
            "task": work.frozen["task"],
            "old": {"parameters": parameters, "buffers": buffers},
        }
        made.append(replace(work, parameters=own, frozen=frozen, loss=ComposedLoss(network, terms)))
    return made


def cases():
    heads = first_works()
    bodies = [second(*both) for both in zip(heads, train(heads, LOOP), strict=True)]
    return {"head": heads, "body": bodies, "all, with teachers of their own": taught_works()}


@pytest.mark.parametrize("name", ["head", "body", "all, with teachers of their own"])
@pytest.mark.parametrize("settings", [LOOP, STACK], ids=["loop", "stack"])
def test_training_is_that_which_computes_them_in_every_step(name, settings):
    works = cases()[name]
    slow = train([in_every_step(work) for work in works], LOOP)
    for one, other in zip(train(works, settings), slow, strict=True):
        assert largest_difference(one.parameters, other.parameters) < 1e-11
        assert largest_difference(one.buffers, other.buffers) < 1e-11
        assert one.losses == pytest.approx(other.losses, rel=1e-10, abs=1e-12)
        assert one.buffers.keys() == other.buffers.keys()


def test_a_body_in_use_sees_each_sample_once_before_the_first_epoch(monkeypatch):
    seen = []
    inner = composition.forward_lazily

    def counted(network, parameters, buffers, inputs, *modes):
        if not isinstance(network.body, IdentityBody):
            seen.append(len(inputs))
        return inner(network, parameters, buffers, inputs, *modes)

    monkeypatch.setattr(composition, "forward_lazily", counted)
    works = [replace(work, batching=Batching(2)) for work in first_works(SIZES[:2])]
    train(works, LOOP)
    assert sum(seen) == 2 * sum(SIZES[:2])  # by the teacher and by the body
    assert max(seen) == 8 * 2  # eight batches at once
    seen.clear()
    train_stacked(works, STACK)
    assert sum(seen) == 2 * sum(SIZES[:2])
    assert max(seen) == 2 * 8 * 2  # agents that share both are seen together


def test_the_work_goes_on_without_the_models_that_were_computed():
    (work,) = with_frozen_outputs(first_works(SIZES[:1]), LOOP)
    assert work.loss.network.body == IdentityBody(8)
    assert work.data.inputs.shape == (SIZES[0], 8)
    assert work.data.extras["old.logits"].shape == (SIZES[0], OLD_CLASSES)
    assert "old" not in work.frozen
    assert not work.frozen[FIXED]


def test_samples_that_chance_changes_are_seen_as_they_are_in_every_step():
    works = make_works(SIZES[:2])
    shaken = [replace(work, pictures=Pictures((0.5,), (0.5,), flip=True)) for work in works]
    assert with_frozen_outputs(shaken, LOOP) == shaken


def test_numbers_depend_on_no_setting_of_the_machine():
    """Agents' programs and simulations have batches of other sizes for full passes."""
    small = TrainingEngineSettings("loop", inference_batch=3)
    for one, other in zip(
        with_frozen_outputs(first_works(dtype=torch.float32), LOOP),
        with_frozen_outputs(first_works(dtype=torch.float32), small),
        strict=True,
    ):
        assert torch.equal(one.data.inputs, other.data.inputs)
        assert torch.equal(one.data.extras["old.logits"], other.data.extras["old.logits"])


def test_a_full_pass_before_each_epoch_finds_the_work_as_it_is():
    works = [replace(work, prepare=lambda *_given: Extras()) for work in first_works(SIZES[:2])]
    assert with_frozen_outputs(works, LOOP) == works


def test_works_that_look_at_nothing_frozen_stay_as_they_are():
    works = make_works(SIZES[:2])
    assert with_frozen_outputs(works, LOOP) == works


def test_a_stack_has_room_for_what_is_computed_beforehand():
    (work,) = first_works(SIZES[:1])
    (foreseen,) = with_frozen_outputs([work], LOOP)
    tensors = [work.data.inputs, work.data.targets, *work.data.extras.values()]
    tensors += [foreseen.data.inputs, foreseen.data.targets, *foreseen.data.extras.values()]
    every = sum(tensor.numel() * tensor.element_size() for tensor in tensors)
    assert 0 <= sample_bytes(work, LOOP) * len(work.data) - every <= len(work.data)
