"""From an agent's data to its steps' batches, whole or in parts, in the order that chance gives."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from fleetledger.learning.networks.pictures import Normaliser, PictureSource, Windows
from fleetledger.learning.networks.torch_layers import Tensors
from fleetledger.learning.training.draws import Draws, EpochDraws
from fleetledger.learning.training.work import Batch, Work

Places = slice | tuple[slice, slice]
"""Samples of an epoch's order; in a stack, of which agents."""
_ORDERED_BYTES = 1 << 22
"""Inputs of an epoch that are brought into its order at once."""


@dataclass(frozen=True, eq=False)
class BatchPart:
    """A part of a step's batch, and its share of the step's rows."""

    batch: Batch
    share: float


@dataclass(frozen=True, eq=False)
class StepParts:
    """A step's batch in its parts, each made when asked for."""

    rows: int
    make: Callable[[int], Iterator[BatchPart]]
    """From so many rows to their parts."""

    def __iter__(self) -> Iterator[BatchPart]:
        """Yield the parts."""
        return self.make(self.rows)


@dataclass(frozen=True, eq=False)
class AgentBatches:
    """What an agent's batches are made of, on the device of its data."""

    work: Work
    draws: Draws
    source: PictureSource | None
    """Of pictures that are shaken by themselves, not as scenes."""
    normaliser: Normaliser | None
    ones: Tensor
    """The weights of a batch of full size."""
    buffers_owned: bool

    @classmethod
    def of(cls, work: Work, *, buffers_owned: bool, epochs: int = 1) -> AgentBatches:
        """Return the batches of a work, whose tensors are where it is trained."""
        device, pictures = work.data.inputs.device, work.pictures
        shaken = work.scenes is not None or (pictures is not None and pictures.shakes)
        size = work.batching.size
        return cls(
            work,
            Draws([work.chance], [len(work.data)], size, device, False, shaken, epochs),
            source_of(work, work.data.inputs),
            None if pictures is None else pictures.on(device),
            torch.ones(min(size, len(work.data)), dtype=real_type(work), device=device),
            buffers_owned,
        )

    def steps(self, epoch: int, found: Tensors) -> Iterator[StepParts]:
        """Yield the steps of an epoch, each as the parts of its batch, made when asked for.

        `found` holds rows for each sample (N, ...) beside those of the data.
        """
        work, size = self.work, self.work.batching.size
        count = work.batching.count(len(work.data))
        if not count:
            return
        drawn = self.draws.epoch(epoch, count)
        made = EpochRows.of(work, drawn, {**work.data.extras, **found}, self.source)
        for step in range(count):
            rows = min(size, len(work.data) - step * size)
            yield StepParts(rows, partial(self._parts, made, step))

    def _parts(self, made: EpochRows, step: int, rows: int) -> Iterator[BatchPart]:
        first = 0
        for size in self.work.batching.part_sizes(rows, self.work.least_rows):
            yield BatchPart(self._batch(made, step, first, size), size / rows)
            first += size

    def _batch(self, made: EpochRows, step: int, first: int, size: int) -> Batch:
        work, start = self.work, step * self.work.batching.size + first
        places = slice(start, start + size)
        chance = made.drawn.step(step, 1, first)
        raw, targets = made.pictures(self.source, places), made.targets_of(places)
        if work.scenes is not None and made.drawn.words is not None:
            raw, targets = work.scenes(raw, targets, made.drawn.words[places])
        return Batch(
            inputs=raw if self.normaliser is None else self.normaliser(raw),
            targets=targets,
            weight=self.ones[:size],
            all_count=True,
            extras=made.extras_of(places),
            dropout=chance.dropout,
            words=chance.loss_words,
            chance=chance,
            norms_frozen=work.norms_frozen,
            buffers_owned=self.buffers_owned,
        )


@dataclass(frozen=True, eq=False)
class EpochRows:
    """An epoch's samples in their order, (..., most): what is small is brought into it at once."""

    drawn: EpochDraws
    inputs: Tensor
    targets: Tensor
    extras: Tensors
    ordered: bool
    """Whether targets are in the epoch's order already; masks of scenes are not."""
    inputs_ordered: bool
    """Whether inputs are, too: a few in the host's memory that chance leaves as they are."""
    windows: Windows | None

    @classmethod
    def of(
        cls, work: Work, drawn: EpochDraws, extras: Tensors, source: PictureSource | None
    ) -> EpochRows:
        """Return the rows of an agent, or of a stack of them, whose samples `work` holds."""
        data = work.data
        ordered = data.targets.dim() == 1
        windows = None
        if source is not None and drawn.words is not None:
            windows = source.pictures.windows(drawn.words)
        each = data.inputs[:1].numel() * data.inputs.element_size()
        here = data.inputs.device.type == "cpu" and source is None and ordered
        few = here and drawn.order.numel() * each <= _ORDERED_BYTES
        return cls(
            drawn,
            data.inputs[drawn.order] if few else data.inputs,
            data.targets[drawn.order] if ordered else data.targets,
            {name: values[drawn.order] for name, values in extras.items()},
            ordered,
            few,
            windows,
        )

    def pictures(self, source: PictureSource | None, places: Places) -> Tensor:
        """Return the inputs of some samples of the order, shaken where they are pictures."""
        if self.inputs_ordered:
            return self.inputs[places]
        rows = self.drawn.order[places]
        if source is None or self.windows is None:
            return self.inputs[rows]
        return source.shaken(rows, self.windows[places])

    def targets_of(self, places: Places) -> Tensor:
        """Return their targets."""
        return self.targets[places if self.ordered else self.drawn.order[places]]

    def extras_of(self, places: Places) -> dict[str, Tensor]:
        """Return their rows of everything else."""
        return {name: values[places] for name, values in self.extras.items()}


def source_of(work: Work, inputs: Tensor) -> PictureSource | None:
    """Return what batches of pictures are cut from, where chance changes these."""
    if work.scenes is not None or work.pictures is None or not work.pictures.shakes:
        return None
    return PictureSource.of(work.pictures, inputs)


def real_type(work: Work) -> torch.dtype:
    """Return the floating-point type that the work is trained in."""
    return next(iter(work.parameters.values())).dtype
