"""Running statistics of batch normalisation, measured anew on given samples.

    m_l = sum_b n_b m_l,b / sum_b n_b    over batches b of n_b samples, at every layer l

m_l,b is a batch's mean, or its sample variance, where every layer before l is normalised by the
batch, as in training; the weights stay. A mean of several networks' weights has activations of its
own, which none of their statistics describes: Izmailov et al., "Averaging Weights Leads to Wider
Optima and Better Generalization", UAI 2018, measure them anew in the same way.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

import torch
from torch import Tensor

from fleetledger.learning.errors import TrainingError
from fleetledger.learning.networks.body import MOMENTUM
from fleetledger.learning.networks.module_body import ModuleBody, of_body
from fleetledger.learning.networks.network import Network
from fleetledger.learning.networks.torch_layers import Mode, Tensors, forward_lazily
from fleetledger.learning.networks.torch_modules import momentum_of


def measured_statistics(
    network: Network, parameters: Tensors, buffers: Tensors, batches: Iterable[Tensor]
) -> dict[str, Tensor]:
    """Return the buffers of the network that the samples of `batches` (n, ...) give it, n >= 2.

    A buffer of a module from outside that is no such statistic stays; of others only names and
    shapes are used. Raises `TrainingError` without a batch, and for a
    batch of one sample.
    """
    shares = {name: _share(network, name) for name in buffers}
    sums = {name: torch.zeros_like(value) for name, value in buffers.items()}
    begun = {name: sums[name] if shares[name] else value for name, value in buffers.items()}
    samples = 0
    for inputs in batches:
        with torch.no_grad():
            # From zero a step of the running average is the batch's own statistics, scaled.
            mode = Mode(training=True, seed=partial(int, samples))
            seen = forward_lazily(network, parameters, begun, inputs, mode).buffers
        sums = {
            name: value + seen[name] * (len(inputs) / (shares[name] or 1))
            for name, value in sums.items()
        }
        samples += len(inputs)
    if not samples:
        raise TrainingError("samples: there is none to measure running statistics on; give two")
    return {
        name: value / samples if shares[name] else buffers[name] for name, value in sums.items()
    }


def _share(network: Network, name: str) -> float | None:
    """Return a batch's share in a running statistic; None of a buffer that is none."""
    body = network.body
    return momentum_of(body, name) if isinstance(body, ModuleBody) and of_body(name) else MOMENTUM
