"""From an agent's data to its steps' batches, whole or in parts, in the order that chance gives."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from learning.networks.pictures import Pictures
from learning.networks.torch_layers import Tensors
from learning.training.chance import Moment, signed
from learning.training.work import Batch, Work


@dataclass(frozen=True, eq=False)
class BatchPart:
    """A part of a step's batch, and its share of the step's rows."""

    batch: Batch
    share: float


def agent_steps(work: Work, epoch: int, found: Tensors) -> Iterator[Iterator[BatchPart]]:
    """Yield the steps of one agent's epoch, each as the parts of its batch, made when asked for.

    `found` holds rows for each sample (N, ...) beside those of the data.
    """
    data, batching = work.data, work.batching
    device = data.inputs.device
    order = torch.from_numpy(work.chance.shuffled(epoch, len(data))).to(device)
    keys = torch.tensor(signed(work.chance.key), device=device)
    extras = {**data.extras, **found}
    for step in range(batching.count(len(data))):
        rows = order[step * batching.size : (step + 1) * batching.size]
        yield _parts(work, rows, extras, Moment(keys, epoch, step))


def _parts(work: Work, rows: Tensor, extras: Tensors, moment: Moment) -> Iterator[BatchPart]:
    sizes = work.batching.part_sizes(len(rows), work.least_rows)
    first = 0
    for part in rows.split(sizes):
        batch = _batch(work, part, extras, replace(moment, first=first))
        yield BatchPart(batch, len(part) / len(rows))
        first += len(part)


def _batch(work: Work, rows: Tensor, extras: Tensors, moment: Moment) -> Batch:
    raw, targets = work.data.inputs[rows], work.data.targets[rows]
    if work.scenes is not None and work.pictures is not None:
        raw, targets = work.scenes(raw, targets, moment.picture_words(len(rows)))
        inputs = work.pictures.normalise(raw)
    else:
        inputs = batch_inputs(raw, work.pictures, moment)
    return Batch(
        inputs=inputs,
        targets=targets,
        weight=torch.ones(len(rows), dtype=real_type(work), device=raw.device),
        extras={name: values[rows] for name, values in extras.items()},
        dropout=moment.dropout,
        words=moment.loss_words,
        norms_frozen=work.norms_frozen,
    )


def batch_inputs(raw: Tensor, pictures: Pictures | None, moment: Moment) -> Tensor:
    """Return what the network gets: `raw` (..., n, ...) itself, or pictures made inputs."""
    if pictures is None:
        return raw
    if pictures.pad or pictures.flip:
        rows = raw.shape[moment.keys.dim()]
        raw = pictures.augment(raw, moment.picture_words(rows))
    return pictures.normalise(raw)


def real_type(work: Work) -> torch.dtype:
    """Return the floating-point type that the work is trained in."""
    return next(iter(work.parameters.values())).dtype
