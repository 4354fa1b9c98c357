"""The trainings that are counted: each method's works, looped and stacked where they can be.

Sizes are small, for neither kernels nor copies depend on them; the networks are those of the
methods' papers, since kernels depend on the number of layers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from unittest.mock import patch

import torch

from benchmarks.speed.fedhaf_training.fleet import Size, body_works, head_works
from benchmarks.speed.kernel_counts.accelerator import CountedGraphs
from benchmarks.speed.lga_training.works import assignment, works
from benchmarks.speed.segmentation_training.lesson import build_work
from benchmarks.speed.segmentation_training.plans import Plan
from fleetledger.learning.losses.composition import FIXED, ComposedLoss, Weighted
from fleetledger.learning.losses.terms import CrossEntropy
from fleetledger.learning.networks.conversion import to_tensors
from fleetledger.learning.networks.mlp import Mlp
from fleetledger.learning.networks.network import Network
from fleetledger.learning.networks.pictures import Pictures
from fleetledger.learning.networks.plan import initial_arrays
from fleetledger.learning.networks.registry import build_network
from fleetledger.learning.networks.vision_transformer import VisionTransformer
from fleetledger.learning.training import stepping
from fleetledger.learning.training.chance import Chance
from fleetledger.learning.training.engine import train_in_loop
from fleetledger.learning.training.settings import TrainingEngineSettings
from fleetledger.learning.training.stack import train_stacked
from fleetledger.learning.training.stepping import CapturedSteps
from fleetledger.learning.training.work import Batching, Data, Sgd, Trained, Work

_BATCH, _AGENTS, _CLASSES = 8, 3, 10
_FEATURES = 16
_PICTURES = Pictures((0.5,) * 3, (0.25,) * 3, pad=4, flip=True)
_NAMES = [f"class {number}" for number in range(_CLASSES)]

Works = Callable[[int, int], Sequence[Work]]
"""From epochs and batches to the works of the agents."""


@dataclass(frozen=True)
class TrainingPath:
    """Works that are trained in a loop, each agent by itself, or in one stack."""

    works: Works
    stacked: bool = False
    captured: bool = False
    """Whether steps are replayed from a graph, whose capture is counted as done once."""

    def run(self, device: str) -> Callable[[int, int], Callable[[], list[Trained]]]:
        """Return what prepares a training on a device for so many epochs and batches."""
        engine = TrainingEngineSettings("stack" if self.stacked else "loop", device)
        alone = _captured if self.captured else train_in_loop
        train = train_stacked if self.stacked else alone

        def prepare(epochs: int, batches: int) -> Callable[[], list[Trained]]:
            made = self.works(epochs, batches)
            made = made if self.stacked else made[:1]
            return lambda: train(made, engine)

        return prepare


def training_paths() -> Mapping[str, TrainingPath]:
    """Return all of them by name."""
    return {
        "fedhaf head, stack": TrainingPath(_fedhaf_heads, stacked=True),
        "fedhaf head, loop": TrainingPath(_fedhaf_heads),
        "fedhaf body, stack": TrainingPath(_fedhaf_bodies, stacked=True),
        "fedhaf body, loop": TrainingPath(_fedhaf_bodies),
        "rounds mlp, stack": TrainingPath(_mlps, stacked=True),
        "rounds mlp, loop": TrainingPath(_mlps),
        "rounds resnet8, stack": TrainingPath(_resnets, stacked=True),
        "rounds resnet8, loop": TrainingPath(_resnets),
        "rounds adapters of vit_b_16, loop": TrainingPath(_adapters),
        "lga resnet18 first task, loop": TrainingPath(lambda *size: _lga("first task", *size)),
        "lga resnet18 later task, loop": TrainingPath(lambda *size: _lga("later task", *size)),
        "lga resnet18 later task, captured": TrainingPath(
            lambda *size: _lga("later task", *size), captured=True
        ),
        "rounds mlp, captured": TrainingPath(_mlps, captured=True),
        "lga resnet8 later task, stack": TrainingPath(_lga_fleet, stacked=True),
        "fbl small_dense later task, loop": TrainingPath(_scenes),
    }


def _captured(works: Sequence[Work], engine: TrainingEngineSettings) -> list[Trained]:
    """Return what training by captured steps makes of the works, with nothing captured before."""
    with (
        patch.object(CapturedSteps, "graphs", CountedGraphs()),
        patch.object(CapturedSteps, "kept", {}),
        patch.object(stepping, "LEAST_STEPS", 1),
    ):
        return train_in_loop(works, replace(engine, steps="captured"))


def _fedhaf_heads(epochs: int, batches: int) -> list[Work]:
    size = Size(_AGENTS, batches * _BATCH - 1, _FEATURES, 2 * _CLASSES)
    return [
        replace(_lasting(work, epochs), batching=Batching(_BATCH))
        for work in _ragged(head_works(size))
    ]


def _fedhaf_bodies(epochs: int, batches: int) -> list[Work]:
    heads = _fedhaf_heads(epochs, batches)
    trained = [Trained(dict(work.parameters), work.buffers, 0, 0, ()) for work in heads]
    size = Size(_AGENTS, batches * _BATCH - 1, _FEATURES, 2 * _CLASSES)
    return [_lasting(work, epochs) for work in body_works(size, heads, trained)]


def _ragged(works: Sequence[Work]) -> list[Work]:
    """Return the works, each with a sample less than the one before: rows are padded in a stack."""
    return [_with_rows(work, len(work.data) - place) for place, work in enumerate(works)]


def _with_rows(work: Work, rows: int) -> Work:
    data = work.data
    extras = {name: values[:rows] for name, values in data.extras.items()}
    return replace(work, data=Data(data.inputs[:rows], data.targets[:rows], extras))


def _mlps(epochs: int, batches: int) -> list[Work]:
    return _rounds(Network(Mlp(3 * 8 * 8, (32, 16), axes=3, dropout=0.2)), epochs, batches)


def _resnets(epochs: int, batches: int) -> list[Work]:
    return _rounds(build_network("resnet8", (3, 8, 8)), epochs, batches)


def _rounds(network: Network, epochs: int, batches: int) -> list[Work]:
    """Return the works of a fleet that trains a network on pictures by cross-entropy."""
    parameters, buffers = to_tensors(network.initial(1, _NAMES))
    loss = ComposedLoss(network, (Weighted(1.0, CrossEntropy()),))
    return _ragged(
        [
            Work(
                parameters,
                buffers,
                _pictures(batches * _BATCH, 8, agent),
                loss,
                Sgd((0.1,) * epochs, momentum=0.9, weight_decay=1e-4),
                Batching(_BATCH),
                Chance(1, f"agent-{agent}"),
                pictures=_PICTURES,
            )
            for agent in range(_AGENTS)
        ]
    )


def _adapters(epochs: int, batches: int) -> list[Work]:
    body = VisionTransformer(side=32, patch=16, width=24, heads=2, hidden=32, adapter=8)
    network = Network(body)
    parameters, buffers = to_tensors(network.initial(1, _NAMES))
    base, _ = to_tensors(initial_arrays(body.base_plan(), 1))
    return [
        Work(
            parameters,
            buffers,
            _pictures(batches * _BATCH, body.side, 0),
            ComposedLoss(network, (Weighted(1.0, CrossEntropy()),)),
            Sgd((0.1,) * epochs, momentum=0.9, weight_decay=1e-4),
            Batching(_BATCH),
            Chance(1, "agent"),
            frozen={FIXED: base},
            pictures=replace(_PICTURES, pad=0),
        )
    ]


def _lga(task: str, epochs: int, batches: int) -> list[Work]:
    of = assignment("resnet18", side=8, batch=_BATCH, epochs=1)
    return [_lasting(works(of, batches * _BATCH)[task], epochs)]


def _lga_fleet(epochs: int, batches: int) -> list[Work]:
    of = assignment("resnet8", side=8, batch=_BATCH, epochs=1)
    work = _lasting(works(of, batches * _BATCH)["later task"], epochs)
    each = [Chance(1, f"agent-{agent}") for agent in range(_AGENTS)]
    return _ragged([replace(work, chance=one, batching=Batching(_BATCH)) for one in each])


def _scenes(epochs: int, batches: int) -> list[Work]:
    work = build_work(Plan("small_dense", side=32, batch=4 * batches, window=20))
    return [replace(_lasting(work, epochs), batching=Batching(4))]


def _pictures(count: int, side: int, seed: int) -> Data:
    chance = torch.Generator().manual_seed(seed)
    inputs = torch.randint(256, (count, 3, side, side), generator=chance, dtype=torch.uint8)
    return Data(inputs, torch.randint(_CLASSES, (count,), generator=chance))


def _lasting(work: Work, epochs: int) -> Work:
    """Return the work with so many epochs, at the rate of its first."""
    optimiser = work.optimiser
    return replace(work, optimiser=replace(optimiser, rates=optimiser.rates[:1] * epochs))
