"""Batches of many agents at once: ragged data behind one another, short rows padded and masked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from fleetledger.learning.networks.conversion import copied_together
from fleetledger.learning.networks.pictures import Normaliser, PictureSource
from fleetledger.learning.networks.torch_layers import Tensors
from fleetledger.learning.training.batches import EpochRows, real_type, source_of
from fleetledger.learning.training.draws import Draws
from fleetledger.learning.training.work import Batch, Data, Work


@dataclass(frozen=True, eq=False)
class StackedData:
    """The data of agents in order of their sizes, the largest first; each has a batch at least."""

    works: Sequence[Work]
    together: Work
    """The first agent's, with the samples of all behind one another."""
    draws: Draws
    source: PictureSource | None
    normaliser: Normaliser | None
    weight: Tensor
    """(A, most): 1 for each sample in an epoch's order, 0 for what pads."""
    share: Tensor
    """(A, most): the same divided by an agent's samples in the step."""
    unbiasing: Tensor
    """(A, steps): samples in a step, divided by one less."""

    @classmethod
    def of(cls, works: Sequence[Work]) -> StackedData:
        """Return the samples of all agents behind one another, on the device of the first."""
        data, sizes = _behind_one_another(works), np.array([len(work.data) for work in works])
        first, device = replace(works[0], data=data), data.inputs.device
        pictures, chances = first.pictures, [work.chance for work in works]
        shaken = pictures is not None and pictures.shakes
        size = first.batching.size
        counts = np.clip(sizes[:, None] - np.arange(0, sizes[0], size), 0, size)
        masks = {
            "weight": np.arange(sizes[0]) < sizes[:, None],
            "each": np.repeat(counts, size, axis=1)[:, : sizes[0]],
            "number": counts,
        }
        kind = real_type(first)
        there = {name: torch.from_numpy(mask).to(kind) for name, mask in masks.items()}
        weight, each, number = copied_together(there, str(device)).values()
        return cls(
            works,
            first,
            Draws(chances, sizes.tolist(), size, device, True, shaken, first.optimiser.epochs),
            source_of(first, data.inputs),
            None if pictures is None else pictures.on(device),
            weight,
            weight / each,
            number / (number - 1),
        )

    def batches(self, epoch: int, found: Tensors) -> Iterator[Batch]:
        """Yield the batches of an epoch, each of the first agents that have one left.

        `found` holds rows for each sample of each agent, behind one another as the data.
        """
        work, sizes = self.together, self.draws.sizes
        counts = [work.batching.count(size) for size in sizes]
        drawn = self.draws.epoch(epoch, counts[0])
        made = EpochRows.of(work, drawn, {**work.data.extras, **found}, self.source)
        for step in range(counts[0]):
            yield self._batch(made, step, sum(count > step for count in counts))

    def _batch(self, made: EpochRows, step: int, active: int) -> Batch:
        start = step * self.together.batching.size
        longest = min(self.draws.sizes[0], start + self.together.batching.size)
        places = (slice(active), slice(start, longest))
        chance = made.drawn.step(step, active)
        raw = made.pictures(self.source, places)
        return Batch(
            inputs=raw if self.normaliser is None else self.normaliser(raw),
            targets=made.targets_of(places),
            weight=self.weight[places],
            all_count=self.draws.sizes[active - 1] >= longest,
            extras=made.extras_of(places),
            dropout=chance.dropout,
            words=chance.loss_words,
            chance=chance,
            norms_frozen=self.together.norms_frozen,
            buffers_owned=True,
            share=self.share[places],
            unbiasing=self.unbiasing[:active, step : step + 1],
        )


def _behind_one_another(works: Sequence[Work]) -> Data:
    data = [work.data for work in works]
    return Data(
        torch.cat([part.inputs for part in data]),
        torch.cat([part.targets for part in data]),
        {name: torch.cat([part.extras[name] for part in data]) for name in data[0].extras},
    )
