"""Batches of many agents at once: ragged data behind one another, short rows padded and masked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from learning.networks.torch_layers import Tensors
from learning.training.batches import batch_inputs, real_type
from learning.training.chance import Moment, signed
from learning.training.work import Batch, Work


@dataclass(frozen=True, eq=False)
class StackedData:
    """The data of agents in order of their sizes, the largest first; each has a batch at least."""

    works: Sequence[Work]
    inputs: Tensor
    targets: Tensor
    extras: Tensors
    keys: Tensor
    """int64 (A,)."""

    @classmethod
    def of(cls, works: Sequence[Work]) -> StackedData:
        """Return the samples of all agents behind one another, on the device of the first."""
        data = [work.data for work in works]
        keys = [signed(work.chance.key) for work in works]
        return cls(
            works,
            torch.cat([part.inputs for part in data]),
            torch.cat([part.targets for part in data]),
            {name: torch.cat([part.extras[name] for part in data]) for name in data[0].extras},
            torch.tensor(keys, device=data[0].inputs.device),
        )

    def batches(self, epoch: int, found: Tensors) -> Iterator[Batch]:
        """Yield the batches of an epoch, each of the first agents that have one left.

        `found` holds rows for each sample of each agent, behind one another as the data.
        """
        sizes = np.array([len(work.data) for work in self.works])
        batching = self.works[0].batching
        counts = np.array([batching.count(size) for size in sizes])
        order = torch.from_numpy(self._order(epoch, sizes)).to(self.inputs.device)
        extras = {**self.extras, **found}
        for step in range(counts[0]):
            active = int((counts > step).sum())
            left = np.minimum(sizes[:active] - step * batching.size, batching.size)
            rows = order[:active, step * batching.size :][:, : left.max()]
            yield self._batch(rows, left, extras, Moment(self.keys[:active], epoch, step))

    def _order(self, epoch: int, sizes: np.ndarray) -> np.ndarray:
        """Return where each agent's samples are, shuffled (A, most), padded by its first."""
        starts = np.cumsum(sizes) - sizes
        order = np.repeat(starts[:, None], sizes[0], axis=1)
        for agent, work in enumerate(self.works):
            order[agent, : sizes[agent]] += work.chance.shuffled(epoch, sizes[agent])
        return order

    def _batch(self, rows: Tensor, left: np.ndarray, extras: Tensors, moment: Moment) -> Batch:
        places = torch.arange(rows.shape[1], device=rows.device)
        valid = places < torch.from_numpy(left).to(rows.device)[:, None]
        return Batch(
            inputs=batch_inputs(self.inputs[rows], self.works[0].pictures, moment),
            targets=self.targets[rows],
            weight=valid.to(real_type(self.works[0])),
            extras={name: values[rows] for name, values in extras.items()},
            dropout=moment.dropout,
            words=moment.loss_words,
            norms_frozen=self.works[0].norms_frozen,
        )
