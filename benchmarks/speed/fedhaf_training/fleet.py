"""The agents that are trained: features around a centre per class, and a round's two works each.

What the features are does not matter for the cost; how many, how wide, and how many classes do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np
import torch
from torch import Tensor

from fleetledger.learning.losses.composition import FIXED, ComposedLoss, Weighted
from fleetledger.learning.losses.terms import (
    CrossEntropy,
    Divergence,
    FeatureBalance,
    FeatureDistance,
)
from fleetledger.learning.networks.conversion import to_tensors
from fleetledger.learning.networks.network import Network
from fleetledger.learning.networks.plan import is_buffer
from fleetledger.learning.networks.registry import build_network
from fleetledger.learning.training.chance import Chance
from fleetledger.learning.training.schedules import constant_rates
from fleetledger.learning.training.work import Batching, Data, Sgd, Trained, Work

HEAD_EPOCHS, BODY_EPOCHS, BATCH = 10, 2, 64
HEAD_RATE, BODY_RATE = 0.02, 1e-3
MOMENTUM, DECAY = 0.9, 5e-4
NEW_CLASSES = 10


@dataclass(frozen=True)
class Size:
    """How large the fleet and its network are."""

    agents: int = 100
    samples: int = 60
    features: int = 2048
    classes: int = 100

    @property
    def network(self) -> Network:
        """The adapter and the hidden head, as FedHAF trains them."""
        return build_network("fam", (self.features,), "hidden")


def sent_numbers(size: Size) -> dict[str, int]:
    """Return how many numbers a round trains and sends: parameters, and statistics beside them."""
    shapes = size.network.shapes(size.classes)
    counts = {name: prod(shape) for name, shape in shapes.items()}
    trained = sum(count for name, count in counts.items() if not is_buffer(name))
    return {"trained_parameters": trained, "numbers_per_upload": sum(counts.values())}


def head_works(size: Size) -> list[Work]:
    """Return what agents train first: the head, behind the adapter that all were sent."""
    network, old_classes = size.network, size.classes - NEW_CLASSES
    parameters, buffers = _model(network, size.classes, seed=1)
    old, old_buffers = _model(network, old_classes, seed=2)
    head = {name: value for name, value in parameters.items() if name.startswith("head.")}
    frozen = {
        "task": torch.arange(size.classes) >= old_classes,
        "old": {"parameters": old, "buffers": old_buffers},
        FIXED: {name: value for name, value in parameters.items() if name not in head},
    }
    terms = (
        Weighted(1.0, CrossEntropy("task")),
        Weighted(1.0, Divergence("old", 1.0, rows="exemplar", direction="student_first")),
    )
    return [
        Work(
            parameters=head,
            buffers=buffers,
            data=_data(size, agent),
            loss=ComposedLoss(network, terms, training="head"),
            optimiser=_steps(HEAD_RATE, HEAD_EPOCHS),
            batching=Batching(BATCH),
            chance=Chance(1, f"agent-{agent}", phase="head"),
            frozen=frozen,
        )
        for agent in range(size.agents)
    ]


def body_works(size: Size, works: Sequence[Work], heads: Sequence[Trained]) -> list[Work]:
    """Return what agents train then: the adapter, before the head that each has trained."""
    network = size.network
    terms = (
        Weighted(2.0, FeatureDistance("old", rows="exemplar")),
        Weighted(1.0, FeatureBalance("task")),
    )
    return [
        replace(
            work,
            parameters=work.frozen[FIXED],
            buffers=head.buffers,
            frozen={**work.frozen, FIXED: head.parameters},
            loss=ComposedLoss(network, terms, training="body"),
            optimiser=_steps(BODY_RATE, BODY_EPOCHS),
            chance=replace(work.chance, phase="body"),
        )
        for work, head in zip(works, heads, strict=True)
    ]


def _model(
    network: Network, classes: int, seed: int
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    return to_tensors(network.initial(seed, [f"class {number}" for number in range(classes)]))


def _data(size: Size, agent: int) -> Data:
    """Return an agent's samples: half of them new, half exemplars, of ten classes each."""
    random = np.random.default_rng(agent)
    old_classes = size.classes - NEW_CLASSES
    new = random.integers(old_classes, size.classes, size.samples)
    known = random.choice(old_classes, 10, replace=False)
    is_old = np.arange(size.samples) < size.samples // 2
    targets = np.where(is_old, random.choice(known, size.samples), new)
    centres = np.random.default_rng(0).normal(size=(size.classes, size.features))
    inputs = centres[targets] + random.normal(size=(size.samples, size.features))
    return Data(
        torch.from_numpy(inputs.astype(np.float32)),
        torch.from_numpy(targets),
        {"exemplar": torch.from_numpy(is_old.astype(np.float32))},
    )


def _steps(rate: float, epochs: int) -> Sgd:
    return Sgd(constant_rates(rate, epochs), MOMENTUM, DECAY)
