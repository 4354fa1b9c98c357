"""The stack against the loop, agent by agent: ragged data, normalisation, dropout, frozen parts."""

from dataclasses import dataclass, replace

import pytest
import torch

from fleetledger.learning.losses.composition import FIXED, ComposedLoss, Weighted
from fleetledger.learning.losses.terms import CrossEntropy, Distillation, EwcPenalty, Proximal
from fleetledger.learning.networks.feature_adjustment import FeatureAdjustment
from fleetledger.learning.networks.mlp import Mlp
from fleetledger.learning.networks.network import Network
from fleetledger.learning.networks.pictures import Pictures
from fleetledger.learning.training.loop import train_alone
from fleetledger.learning.training.memory import agents_per_stack, kept_bytes
from fleetledger.learning.training.settings import TrainingEngineSettings
from fleetledger.learning.training.stack import train_stacked
from fleetledger.learning.training.stacking import signature
from fleetledger.learning.training.work import Batching, Data, Extras, Sgd
from tests.learning.training.agents import (
    CLASSES,
    INPUTS,
    NETWORK,
    largest_difference,
    make_works,
    tensors,
    train_by_reference,
)

pytestmark = pytest.mark.torch

SETTINGS = TrainingEngineSettings()
SIZES = (37, 8, 64, 3, 16, 33, 2)


def state(trained):
    return {**trained.parameters, **trained.buffers}


def assert_same_as_alone(works, within=1e-12):
    together = train_stacked(works, SETTINGS)
    assert len(together) == len(works)
    for work, trained in zip(works, together, strict=True):
        alone = train_alone(work, SETTINGS)
        assert largest_difference(state(trained), state(alone)) < within
        assert trained.losses == pytest.approx(alone.losses, rel=1e-4)
        assert (trained.steps, trained.samples) == (alone.steps, alone.samples)


def test_ragged_agents_with_normalisation_and_dropout_train_as_alone():
    assert_same_as_alone(make_works(SIZES, epochs=5))


def test_forty_steps_in_float32_differ_by_rounding_only():
    # Batches of two or three are left out: their normalisation amplifies rounding.
    assert_same_as_alone(make_works((40, 37, 8, 24), torch.float32, epochs=8), 1e-5)


def test_fedhafs_network_trains_as_alone_with_ragged_last_batches():
    assert_same_as_alone(adapter_works((37, 16, 12, 4), rate=0.02), 1e-10)


def test_normalising_two_rows_lets_rounding_grow_as_three_do_not():
    """A stack and the loop then end as far apart as the loop from weights one rounding apart."""
    for size, grows in ((3, False), (2, True)):
        (work,) = adapter_works((size,))
        moved = {name: value * (1 + 2**-52) for name, value in work.parameters.items()}
        alone, apart = (
            state(train_alone(one, SETTINGS)) for one in (work, replace(work, parameters=moved))
        )
        (together,) = (state(one) for one in train_stacked([work], SETTINGS))
        assert (largest_difference(apart, alone) > 1e-10) is grows
        assert (largest_difference(together, alone) > 1e-10) is grows


def adapter_works(sizes, rate=0.1):
    """Return works of FedHAF's adapter and hidden head, as `make_works` does."""
    network = Network(FeatureAdjustment(INPUTS, hidden=64, width=32), "hidden")
    parameters, buffers = tensors(network, torch.float64)
    loss = ComposedLoss(network, (Weighted(1.0, CrossEntropy()),))
    given = {"loss": loss, "optimiser": Sgd((rate,) * 20, 0.9, 5e-4)}
    works = make_works(sizes, **given)
    return [replace(work, parameters=parameters, buffers=buffers) for work in works]


def test_bfloat16_keeps_float32_weights_and_statistics_and_learns_nearly_the_same():
    works = make_works((64, 37, 16), torch.float32, epochs=4)
    full, half = (
        train_stacked(works, TrainingEngineSettings("stack", autocast=flag))
        for flag in (False, True)
    )
    for exact, rounded in zip(full, half, strict=True):
        assert {value.dtype for value in state(rounded).values()} == {torch.float32}
        assert 0 < largest_difference(state(rounded), state(exact)) < 0.2
        assert rounded.losses[-1] == pytest.approx(exact.losses[-1], rel=0.1)


def test_forty_steps_are_those_of_torch_with_modules():
    works = make_works((37, 40, 5), epochs=8)
    trained = train_stacked(works, SETTINGS)
    assert trained[0].steps == 40
    for work, made in zip(works, trained, strict=True):
        assert largest_difference(state(made), train_by_reference(work)) < 1e-12


@pytest.mark.parametrize(
    "optimiser",
    [
        Sgd((0.1, 0.01, 0.0)),
        Sgd((0.1, 0.05), weight_decay=0.1),
        Sgd((0.1, 0.05), momentum=0.5),
        Sgd((0.1, 0.05), momentum=0.5, weight_decay=0.1, nesterov=True),
    ],
    ids=["rates", "weight decay", "momentum", "nesterov"],
)
def test_every_optimiser_does_the_same(optimiser):
    assert_same_as_alone(make_works(SIZES, optimiser=optimiser))


def test_short_batches_left_out_stay_out():
    assert_same_as_alone(make_works((8, 23, 16, 40), batching=Batching(8, smallest=8)))


def test_shared_and_own_frozen_parts_reach_every_agent():
    terms = (
        Weighted(1.0, CrossEntropy("scope")),
        Weighted(3.0, Distillation("teacher", classes="known")),
        Weighted(1.0, Distillation("past")),
        Weighted(0.2, Proximal("anchor")),
        Weighted(10.0, EwcPenalty("anchor", "fisher")),
    )
    works = make_works(SIZES, loss=ComposedLoss(NETWORK, terms))
    old, old_buffers = tensors(NETWORK, torch.float64, seed=9)
    shared = {
        "teacher": {"parameters": old, "buffers": old_buffers},
        "anchor": works[0].parameters,
        "fisher": {name: value.square() for name, value in old.items()},
    }
    given = []
    for index, work in enumerate(works):
        past, past_buffers = tensors(NETWORK, torch.float64, seed=20 + index)
        own = {
            "scope": torch.arange(CLASSES) != index % CLASSES,
            "known": torch.arange(CLASSES) < index % CLASSES,
            "past": {"parameters": past, "buffers": past_buffers},
        }
        given.append(replace(work, frozen={**shared, **own}))
    assert_same_as_alone(given)


def test_a_part_of_a_network_can_train_on_a_frozen_rest():
    loss = ComposedLoss(NETWORK, (Weighted(1.0, CrossEntropy()),), "none")
    works = make_works(SIZES, loss=loss)
    head = {n: v for n, v in works[0].parameters.items() if n.startswith("head")}
    rest = {n: v for n, v in works[0].parameters.items() if n not in head}
    assert_same_as_alone([replace(work, parameters=head, frozen={FIXED: rest}) for work in works])


def test_eight_bit_pictures_are_cropped_and_mirrored_as_alone():
    network = Network(FlatMlp(2 * 5 * 5, (6,)))
    parameters, buffers = tensors(network, torch.float32)
    pictures = Pictures((0.5, 0.4), (0.2, 0.3), pad=2, flip=True)
    works = []
    for index, work in enumerate(make_works((9, 20, 5), torch.float32, epochs=2)):
        generator = torch.Generator().manual_seed(index)
        raw = torch.randint(0, 256, (len(work.data), 2, 5, 5), generator=generator)
        works.append(
            replace(
                work,
                parameters=parameters,
                buffers=buffers,
                loss=ComposedLoss(network, (Weighted(1.0, CrossEntropy()),)),
                data=Data(raw.to(torch.uint8), work.data.targets),
                pictures=pictures,
            )
        )
    assert_same_as_alone(works, 1e-5)


@dataclass(frozen=True)
class FlatMlp(Mlp):
    def features(self, layers, inputs):
        return super().features(layers, inputs.flatten(-3))


@dataclass(frozen=True)
class PulledTo:
    """Cross-entropy, and a pull towards what the full pass before the epoch found."""

    stackable: bool = True

    def __call__(self, parameters, buffers, frozen, extras, batch):
        loss, after = ComposedLoss(NETWORK, (Weighted(1.0, CrossEntropy()),))(
            parameters, buffers, frozen, extras, batch
        )
        pull = (batch.extras["row"] * batch.weight).sum(-1) * extras["scale"]
        return loss + pull * parameters["head.bias"].square().sum(-1), after


def test_full_passes_before_epochs_give_each_agent_and_sample_its_own():
    def prepare(work, parameters, buffers, epoch, infer):
        logits = infer(NETWORK, parameters, buffers, work.data.inputs).logits
        return Extras({"scale": logits.std()}, {"row": logits[:, 0].square()})

    assert_same_as_alone(make_works(SIZES, epochs=3, loss=PulledTo(), prepare=prepare))


def test_without_epochs_nothing_moves():
    works = make_works((5, 9), optimiser=Sgd(()))
    for trained in train_stacked(works, SETTINGS):
        assert trained.losses == ()
        assert largest_difference(state(trained), {**works[0].parameters, **works[0].buffers}) == 0


def test_the_works_stay_as_they_are():
    works = make_works((5, 9))
    before = {name: value.clone() for name, value in works[0].buffers.items()}
    train_stacked(works, SETTINGS)
    assert all(torch.equal(works[0].buffers[name], value) for name, value in before.items())


def test_works_share_a_stack_only_if_they_are_alike():
    one, two = make_works((5, 9))
    assert signature(one) == signature(two)
    changes = {
        "batching": Batching(4),
        "optimiser": Sgd((0.2,)),
        "frozen": {"mask": torch.ones(2)},
        "pictures": Pictures((0.5,), (0.5,)),
        "loss": PulledTo(),
        "parameters": {n: v.float() for n, v in one.parameters.items()},
        "data": Data(one.data.inputs[:, :3], one.data.targets),
        "prepare": lambda *given: Extras(),
    }
    for name, value in changes.items():
        assert signature(replace(one, **{name: value})) != signature(one), name


def test_memory_is_measured_and_divides_agents_into_stacks():
    works = make_works((64, 8))
    values = 8 * (6 + 3 * 16 + 3 * 8 + CLASSES)
    assert 8 * values < kept_bytes(works[0], SETTINGS) < 8 * 8 * values
    many = agents_per_stack(works, TrainingEngineSettings(stack_bytes=10**7))
    few = agents_per_stack(works, TrainingEngineSettings(stack_bytes=10**6))
    assert 5 < few < many
    assert agents_per_stack(works, TrainingEngineSettings(stack_bytes=1)) == 1


def test_memory_is_not_asked_for_what_all_agents_share():
    works = make_works((64, 8))
    shared, own = torch.zeros(10**5), [torch.zeros(10**5) for _ in works]
    settings = TrainingEngineSettings(stack_bytes=10**7)
    alike = [replace(work, frozen={"teacher": {"a": shared}}) for work in works]
    apart = [
        replace(work, frozen={"teacher": {"a": mine}})
        for work, mine in zip(works, own, strict=True)
    ]
    assert agents_per_stack(alike, settings) == agents_per_stack(works, settings)
    assert agents_per_stack(apart, settings) < agents_per_stack(works, settings) / 2
