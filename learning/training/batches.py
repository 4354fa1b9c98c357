"""From an agent's data to its batches, in the order that chance gives."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from learning.networks.pictures import Pictures
from learning.networks.torch_layers import Tensors
from learning.training.chance import Moment, signed
from learning.training.work import Batch, Work


def agent_batches(work: Work, epoch: int, found: Tensors) -> Iterator[Batch]:
    """Yield the batches of one agent's epoch, each of its real size.

    `found` holds rows for each sample (N, ...) beside those of the data.
    """
    data, batching = work.data, work.batching
    device = data.inputs.device
    order = torch.from_numpy(work.chance.shuffled(epoch, len(data))).to(device)
    keys = torch.tensor(signed(work.chance.key), device=device)
    extras = {**data.extras, **found}
    for step in range(batching.count(len(data))):
        rows = order[step * batching.size : (step + 1) * batching.size]
        moment = Moment(keys, epoch, step)
        yield Batch(
            inputs=batch_inputs(data.inputs[rows], work.pictures, moment),
            targets=data.targets[rows],
            weight=torch.ones(len(rows), dtype=real_type(work), device=device),
            extras={name: values[rows] for name, values in extras.items()},
            dropout=moment.dropout,
            words=moment.loss_words,
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
