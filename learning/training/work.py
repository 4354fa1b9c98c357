"""What an agent is to train, and the pure functions that say how.

A method describes `Work`; an engine carries it out and returns `Trained`. The loss is all that
engines share with methods: it works on one agent and, for stackable networks, on a stack of them,
where every tensor of the agents has a leading axis A. In shapes below, (...) is () or (A,).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import torch
from torch import Tensor

from fleetledger.learning.errors import TrainingError
from fleetledger.learning.networks.inference import Inference
from fleetledger.learning.networks.pictures import Pictures
from fleetledger.learning.networks.torch_layers import Dropout, Mode, Tensors
from fleetledger.learning.training.chance import Chance, StepChance
from fleetledger.learning.training.resident import ResidentSamples, SampleArray, on_host
from fleetledger.learning.training.scenes import SceneCrops, check_scenes

Tree = Mapping[str, Any]
"""Tensors by name, or further such mappings."""


@dataclass(frozen=True, eq=False)
class Data:
    """An agent's samples: inputs (N, ...), targets (N, ...), and whatever else has one row each.

    Inputs are floats, or uint8 pictures (N, c, h, w) where the work has `pictures`. Targets of
    scenes are masks, uint8 (N, h, w).
    """

    inputs: Tensor
    targets: Tensor
    extras: Tensors = field(default_factory=dict)
    base: Tensor | None = None
    """The fleet's samples, where they lie on the device of training: `inputs` (N,) int64 are then
    rows of these, until the work is moved there."""

    @classmethod
    def of(cls, samples: SampleArray, targets: Tensor, extras: Tensors | None = None) -> Data:
        """Return an agent's samples, by their rows where they are on its device already."""
        if isinstance(samples, ResidentSamples):
            return cls(torch.from_numpy(samples.rows), targets, extras or {}, samples.base)
        return cls(on_host(samples), targets, extras or {})

    @property
    def like(self) -> Tensor:
        """A tensor of samples like these, for their shape and type."""
        return self.inputs if self.base is None else self.base

    @property
    def tensors(self) -> dict[str, Tensor]:
        """What there is of each sample, by name."""
        return {"": self.like, ".": self.targets, **self.extras}

    def __post_init__(self) -> None:
        for name, rows in {"targets": self.targets, **self.extras}.items():
            if len(rows) != len(self.inputs):
                raise TrainingError(
                    f"{name}: {len(rows)} given, inputs {len(self.inputs)}; give one each"
                )

    def __len__(self) -> int:
        return int(self.inputs.shape[0])  # `len` of a tensor asks Python first


@dataclass(frozen=True, eq=False)
class Batch:
    """The samples of a step or of a part of one: inputs (..., n, ...), targets (..., n, ...)."""

    inputs: Tensor
    targets: Tensor
    weight: Tensor
    """(..., n): 1 for a sample, 0 for a row that pads an agent with fewer samples in a stack."""
    extras: Tensors = field(default_factory=dict)
    dropout: Dropout | None = None
    words: Callable[[int], Tensor] | None = None
    """From a number to so many words of chance for the loss's own draws, int64 (..., number)."""
    norms_frozen: bool = False
    buffers_owned: bool = False
    """Whether the buffers that come with it are the engine's own: a loss may change them in place,
    and returns them all the same."""
    share: Tensor | None = None
    unbiasing: Tensor | None = None
    """As of `Mode`: what norms of a stack divide by."""
    chance: StepChance | None = None
    """What `dropout` and `words` draw by, for a step that draws them itself."""
    all_count: bool = False
    """Whether it is known beforehand that no row pads, so that nothing needs a mask."""

    @property
    def stacked(self) -> bool:
        """Whether the first axis is that of agents."""
        return bool(self.weight.dim() > 1)

    def mode(self, *, training: bool) -> Mode:
        """Return how a network is to see this batch: as in training, or as in use."""
        weight = self.weight if self.stacked else None
        return Mode(
            training,
            weight,
            self.dropout,
            self.norms_frozen,
            self.buffers_owned,
            self.share,
            self.unbiasing,
            self.all_count,
            None if self.chance is None or self.stacked else self.chance.generator_seed,
        )


@dataclass(frozen=True, eq=False)
class Extras:
    """What a full pass before an epoch found: per agent, and per sample (N, ...)."""

    agent: Tensors = field(default_factory=dict)
    samples: Tensors = field(default_factory=dict)


class LossFunction(Protocol):
    """The loss of a step; pure, but for buffers that the engine owns.

    Equal losses are equal values, with equal hashes.
    """

    @property
    def stackable(self) -> bool:
        """Whether it also takes a stack of agents."""
        ...

    def __call__(
        self, parameters: Tensors, buffers: Tensors, frozen: Tree, extras: Tensors, batch: Batch
    ) -> tuple[Tensor, Tensors]:
        """Return the loss of each agent (...) and the new buffers.

        `parameters` and `buffers` are the agents' own. `frozen` and `extras` hold what `Work` and
        `prepare` gave; in a stack, leaves that differ between agents gain the axis A, and a
        leaf that all agents share, the same object, stays as it is.
        """
        ...


@dataclass(frozen=True)
class Sgd:
    """Stochastic gradient descent as torch.optim.SGD: one learning rate for each local epoch."""

    rates: tuple[float, ...]
    momentum: float = 0.0
    weight_decay: float = 0.0
    nesterov: bool = False
    """Whether a step looks ahead along the velocity, which there must be."""

    def __post_init__(self) -> None:
        if self.nesterov and not self.momentum:
            raise TrainingError("nesterov: True without momentum; give a momentum above 0")

    @property
    def epochs(self) -> int:
        """Number of local epochs."""
        return len(self.rates)


@dataclass(frozen=True)
class Batching:
    """How samples become batches: `size` each, a last one only from `smallest` samples on.

    Batch normalisation needs two samples; `smallest = size` leaves every short batch out.
    """

    size: int
    smallest: int = 2
    parts: int = 1
    """A batch goes through the network in so many parts, a short one in fewer: the step's memory
    is that of `part_size` samples. Loss and gradients are the parts' mean, weighted by their rows,
    as of one batch where the loss is a mean over rows; what a loss counts otherwise, pixels for
    one, and what batch normalisation measures, is of the part."""

    def __post_init__(self) -> None:
        if not 1 <= self.smallest <= self.size:
            raise TrainingError(
                f"smallest: {self.smallest} with batches of {self.size}; give 1 to {self.size}"
            )
        if self.parts < 1:
            raise TrainingError(f"parts: {self.parts}; give 1 or more")

    @property
    def part_size(self) -> int:
        """Samples that go through the network at once."""
        return -(-self.size // self.parts)

    def count(self, samples: int) -> int:
        """Return the number of batches of an epoch."""
        full, rest = divmod(samples, self.size)
        return full + (rest >= self.smallest)

    def part_sizes(self, rows: int, least: int) -> list[int]:
        """Return the parts of a batch of so many rows, as even as can be, the larger ones first.

        None is of fewer than `least` rows: three in parts of two are one part.
        """
        if self.parts == 1 and rows <= self.size:
            return [rows]
        count = max(1, min(-(-rows // self.part_size), rows // least))
        each, rest = divmod(rows, count)
        return [each + 1] * rest + [each] * (count - rest)


@dataclass(frozen=True, eq=False)
class Work:
    """All that one agent needs to train once; optimiser state begins anew with each work."""

    parameters: Tensors
    """Trained."""
    buffers: Tensors
    """Follow the data: the running statistics of batch normalisation."""
    data: Data
    loss: LossFunction
    optimiser: Sgd
    batching: Batching
    chance: Chance
    frozen: Tree = field(default_factory=dict)
    """Teachers, anchors, masks, parts that are not trained."""
    pictures: Pictures | None = None
    prepare: Prepare | None = None
    scenes: SceneCrops | None = None
    """Cuts pictures and the masks that are their targets alike; `pictures` then only normalises."""
    local_epoch: Callable[[Any], None] | None = None
    """Carries out each epoch, a `learning.training.local_epoch.LocalEpoch`, where it is of a
    method's own; such an agent is trained by itself."""
    by_hand: bool = False
    """Whether the loss is of a method's own, which nobody compiles nor captures."""
    norms_frozen: bool = False
    """Whether batch normalisation follows the running statistics while training, and leaves them:
    a batch or part of one sample is then allowed."""

    def __post_init__(self) -> None:
        if not self.parameters:
            raise TrainingError("parameters: none are given; name at least one to train")
        if self.scenes is not None:
            check_scenes(self.data.inputs, self.data.targets)
            if self.pictures is None:
                raise TrainingError("pictures: missing; scenes are bytes that it normalises")

    @property
    def least_rows(self) -> int:
        """Samples that go through the network at once at least: two where a norm measures them."""
        return 2 if self.buffers and not self.norms_frozen else 1


Prepare = Callable[[Work, Tensors, Tensors, int, Inference], Extras]
"""Called before each epoch with work, parameters, buffers, epoch and the way to infer."""


@dataclass(frozen=True, eq=False)
class Trained:
    """What training made of a work."""

    parameters: Tensors
    buffers: Tensors
    samples: int
    steps: int
    losses: tuple[float, ...]
    """The mean loss of each epoch's batches, in order; empty without a batch. Not finite where
    training diverged: whoever sends weights refuses such."""


def shortened(work: Work, batches: int) -> Work:
    """Return the work with data for so many batches and one epoch, to measure by."""
    rows, data = batches * work.batching.size, work.data
    few = replace(
        data,
        inputs=data.inputs[:rows],
        targets=data.targets[:rows],
        extras={name: values[:rows] for name, values in data.extras.items()},
    )
    rates = work.optimiser.rates[:1]
    return replace(work, data=few, optimiser=replace(work.optimiser, rates=rates))
