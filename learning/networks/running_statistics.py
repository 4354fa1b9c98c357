"""Running statistics of batch normalisation, measured anew on given samples.

    m_l = sum_b n_b m_l,b / sum_b n_b    over batches b of n_b samples, at every layer l

m_l,b is a batch's mean, or its sample variance, where every layer before l is normalised by the
batch, as in training; the weights stay. A mean of several networks' weights has activations of its
own, which none of their statistics describes: Izmailov et al., "Averaging Weights Leads to Wider
Optima and Better Generalization", UAI 2018, measure them anew in the same way.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from fleetledger.learning.errors import TrainingError
from fleetledger.learning.networks.body import MOMENTUM
from fleetledger.learning.networks.network import Network
from fleetledger.learning.networks.torch_layers import Mode, Tensors, forward_lazily


def measured_statistics(
    network: Network, parameters: Tensors, buffers: Tensors, batches: Iterable[Tensor]
) -> dict[str, Tensor]:
    """Return the buffers of the network that the samples of `batches` (n, ...) give it, n >= 2.

    Of `buffers` only names and shapes are used. Raises `TrainingError` without a batch, and for a
    batch of one sample.
    """
    still = {name: torch.zeros_like(value) for name, value in buffers.items()}
    sums, samples = still, 0
    for inputs in batches:
        with torch.no_grad():
            # From zero a step of the running average is the batch's own statistics, scaled.
            seen = forward_lazily(network, parameters, still, inputs, Mode(training=True)).buffers
        samples += len(inputs)
        sums = {name: value + seen[name] * (len(inputs) / MOMENTUM) for name, value in sums.items()}
    if not samples:
        raise TrainingError("samples: there is none to measure running statistics on; give two")
    return {name: value / samples for name, value in sums.items()}
