"""Stacks of small convolutional networks against the loop, agent by agent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch

from fleetledger.learning.errors import TrainingError
from fleetledger.learning.losses.composition import FIXED, ComposedLoss, Training, Weighted
from fleetledger.learning.losses.terms import CrossEntropy, Distillation, EwcPenalty, Proximal
from fleetledger.learning.networks.body import Body
from fleetledger.learning.networks.convnet import ConvNet
from fleetledger.learning.networks.network import Network
from fleetledger.learning.networks.pictures import Pictures
from fleetledger.learning.networks.registry import build_network
from fleetledger.learning.networks.resnet import ResNet
from fleetledger.learning.training.batches import AgentBatches
from fleetledger.learning.training.chance import Chance
from fleetledger.learning.training.engine import train
from fleetledger.learning.training.loop import train_alone
from fleetledger.learning.training.settings import TrainingEngineSettings
from fleetledger.learning.training.stack import train_stacked
from fleetledger.learning.training.stack_batches import StackedData
from fleetledger.learning.training.work import Batching, Data, Sgd, Trained, Work
from tests.learning.training.agents import CLASSES, largest_difference, tensors

pytestmark = pytest.mark.torch

SETTINGS = TrainingEngineSettings()
SIZES = (37, 8, 24, 3, 16, 2)
"""Of the last batches, some are full, some pad one row, and some are of two or three samples."""
PICTURES = Pictures((0.5, 0.4), (0.2, 0.3), pad=2, flip=True)
BODIES: dict[str, Body] = {
    "resnet": ResNet(2, (4, 6, 8), (1, 1, 1)),
    "signed resnet of several blocks": ResNet(2, (4, 6), (2, 2), signed=True),
    "convnet": ConvNet(2, (4, 6)),
}


def works(
    sizes: Sequence[int] = SIZES,
    dtype: torch.dtype = torch.float64,
    body: Body = BODIES["resnet"],
    epochs: int = 3,
    **changes: Any,
) -> list[Work]:
    """One work per size; in float32 of bytes, which are shaken, else of floats."""
    network = Network(body)
    parameters, buffers = tensors(network, dtype)
    fields = {
        "loss": ComposedLoss(network, (Weighted(1.0, CrossEntropy()),)),
        "optimiser": Sgd((0.05,) * epochs, momentum=0.9, weight_decay=1e-3),
        "batching": Batching(8),
        "pictures": PICTURES if dtype == torch.float32 else None,
    } | changes
    made = []
    for agent, size in enumerate(sizes):
        chance = torch.Generator().manual_seed(agent)
        raw = torch.randint(256, (size, 2, 8, 8), generator=chance).to(torch.uint8)
        inputs = raw if fields["pictures"] is not None else raw.to(dtype) / 128 - 1
        data = Data(inputs, torch.randint(CLASSES, (size,), generator=chance))
        made.append(Work(parameters, buffers, data, chance=Chance(5, f"agent-{agent}"), **fields))
    return made


def state(trained: Trained) -> dict[str, torch.Tensor]:
    return {**trained.parameters, **trained.buffers}


def assert_same_as_alone(given: Sequence[Work], within: float = 1e-12) -> None:
    for work, trained in zip(given, train_stacked(given, SETTINGS), strict=True):
        alone = train_alone(work, SETTINGS)
        assert largest_difference(state(trained), state(alone)) < within
        assert trained.losses == pytest.approx(alone.losses, rel=1e-4)
        assert (trained.steps, trained.samples) == (alone.steps, alone.samples)
        moved = largest_difference(trained.parameters, work.parameters)
        assert moved > 100 * within, "what did not move would be equal, too"


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_ragged_agents_train_as_alone(body: Body) -> None:
    assert_same_as_alone(works(body=body))


def test_twenty_steps_in_float32_differ_by_rounding_only() -> None:
    # Batches of two or three are left out: their normalisation amplifies rounding. After twice as
    # many steps a unit may lie so near to zero that processors differ on its side.
    assert_same_as_alone(works((40, 37, 8, 24), torch.float32, epochs=4), 1e-4)


def test_pictures_are_shaken_by_the_words_of_each_agent_as_alone() -> None:
    given = works((21, 16, 9), torch.float32)
    together = StackedData.of(given)
    for epoch in range(2):
        stacked = list(together.batches(epoch, {}))
        for agent, work in enumerate(given):
            alone = [
                next(iter(parts)).batch
                for parts in AgentBatches.of(work, buffers_owned=True).steps(epoch, {})
            ]
            assert len(alone) == sum(len(batch.weight) > agent for batch in stacked)
            for one, all_ in zip(alone, stacked, strict=False):
                rows = len(one.weight)
                assert torch.equal(all_.inputs[agent, :rows], one.inputs)
                assert torch.equal(all_.targets[agent, :rows], one.targets)
                assert int(all_.weight[agent].sum()) == rows


@pytest.mark.parametrize("own", [False, True], ids=["shared", "own"])
def test_teachers_anchors_and_importance_reach_every_agent(own: bool) -> None:
    network = Network(BODIES["resnet"])
    terms = (
        Weighted(1.0, CrossEntropy("scope")),
        Weighted(2.0, Distillation("teacher")),
        Weighted(0.2, Proximal("anchor")),
        Weighted(10.0, EwcPenalty("anchor", "fisher")),
    )
    given = []
    for agent, work in enumerate(works(loss=ComposedLoss(network, terms))):
        seed = 9 + agent * own
        if own or not agent:
            old, old_buffers = tensors(network, torch.float64, seed=seed)
            fisher = {name: value.square() for name, value in old.items()}
        frozen = {
            "scope": torch.arange(CLASSES) != seed % CLASSES,
            "teacher": {"parameters": old, "buffers": old_buffers},
            "anchor": old,
            "fisher": fisher,
        }
        given.append(replace(work, frozen=frozen))
    assert_same_as_alone(given)


@pytest.mark.parametrize("training", ["all", "body", "head", "none"])
@pytest.mark.parametrize("part", ["body", "head"])
def test_a_part_trains_on_a_frozen_rest(part: str, training: Training) -> None:
    loss = ComposedLoss(Network(BODIES["resnet"]), (Weighted(1.0, CrossEntropy()),), training)
    given = works(loss=loss)
    head = {name for name in given[0].parameters if name.startswith("head")}
    wanted = {name for name in given[0].parameters if (name in head) == (part == "head")}
    trained = {name: given[0].parameters[name] for name in wanted}
    rest = {name: value for name, value in given[0].parameters.items() if name not in wanted}
    parts = {"parameters": trained, "frozen": {FIXED: rest}}
    assert_same_as_alone([replace(work, **parts) for work in given])


def test_frozen_norms_stay_and_allow_a_batch_of_one() -> None:
    given = works((9, 8, 1), norms_frozen=True, batching=Batching(8, smallest=1))
    assert_same_as_alone(given)
    for trained in train_stacked(given, SETTINGS):
        assert largest_difference(trained.buffers, given[0].buffers) == 0


def test_bfloat16_keeps_float32_weights_and_statistics_and_learns_nearly_the_same() -> None:
    given = works((40, 37, 16), torch.float32, optimiser=Sgd((0.01,)))
    full, half = (
        train_stacked(given, TrainingEngineSettings("stack", autocast=flag))
        for flag in (False, True)
    )
    for exact, rounded in zip(full, half, strict=True):
        assert {value.dtype for value in state(rounded).values()} == {torch.float32}
        assert 0 < largest_difference(state(rounded), state(exact)) < 0.1
        assert rounded.losses[-1] == pytest.approx(exact.losses[-1], rel=0.05)


@pytest.mark.parametrize("name", ["resnet8", "resnet20", "resnet32", "convnet"])
def test_narrow_networks_have_layers_for_stacks(name: str) -> None:
    assert build_network(name, (3, 32, 32)).stackable


def test_a_wide_network_trains_alone_and_a_stack_of_it_is_refused() -> None:
    wide = works((9, 8), body=ResNet(2, (4, 128), (1, 1)), epochs=1)
    for work, trained in zip(wide, train(wide, TrainingEngineSettings("auto")), strict=True):
        assert largest_difference(state(trained), state(train_alone(work, SETTINGS))) == 0
    assert not build_network("resnet18", (3, 32, 32)).stackable
    with pytest.raises(TrainingError, match="choose loop or auto"):
        train(wide, TrainingEngineSettings("stack"))
