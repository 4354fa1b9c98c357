"""Agents to train in tests: ragged data, a small network, and torch's own way to train it."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import nn

from fleetledger.learning.losses.composition import ComposedLoss, Weighted
from fleetledger.learning.losses.terms import CrossEntropy
from fleetledger.learning.networks.mlp import Mlp
from fleetledger.learning.networks.network import Network
from fleetledger.learning.networks.plan import is_buffer
from fleetledger.learning.numerics.counter_generator import random_words
from fleetledger.learning.training.chance import Chance, word
from fleetledger.learning.training.work import Batching, Data, Sgd, Work

INPUTS, CLASSES = 6, 4
NETWORK = Network(Mlp(INPUTS, (16, 8), dropout=0.25))
CROSS_ENTROPY = ComposedLoss(NETWORK, (Weighted(1.0, CrossEntropy()),))
SIZES = (37, 8, 64, 3, 16, 1, 0, 33)


def tensors(network: Network, dtype: torch.dtype, seed: int = 0):
    """Return first parameters and buffers."""
    arrays = network.initial(seed, [f"class {i}" for i in range(CLASSES)])
    given = {name: torch.from_numpy(array).to(dtype) for name, array in arrays.items()}
    parameters = {name: value for name, value in given.items() if not is_buffer(name)}
    return parameters, {name: value for name, value in given.items() if is_buffer(name)}


def make_data(samples: int, dtype: torch.dtype, seed: int) -> Data:
    """Return noisy samples around a centre per class."""
    generator = np.random.default_rng(seed)
    targets = generator.integers(0, CLASSES, samples)
    centres = np.random.default_rng(7).normal(size=(CLASSES, INPUTS))
    inputs = centres[targets] + generator.normal(size=(samples, INPUTS))
    return Data(torch.from_numpy(inputs).to(dtype), torch.from_numpy(targets))


def make_works(
    sizes: Sequence[int] = SIZES, dtype: torch.dtype = torch.float64, epochs: int = 8, **changes
) -> list[Work]:
    """Return one work per size: the same model, data and chance of each agent's own."""
    parameters, buffers = tensors(NETWORK, dtype)
    fields = {
        "loss": CROSS_ENTROPY,
        "optimiser": Sgd((0.1,) * epochs, momentum=0.9, weight_decay=1e-3),
        "batching": Batching(8),
    } | changes
    return [
        Work(
            parameters,
            buffers,
            make_data(size, dtype, seed=100 + index),
            chance=Chance(5, f"agent-{index}", stage=2, round=3),
            **fields,
        )
        for index, size in enumerate(sizes)
    ]


class ReferenceMlp(nn.Module):
    """The network of `NETWORK` in torch's modules; dropout masks are handed in."""

    def __init__(self) -> None:
        super().__init__()
        self.linear0, self.norm0 = nn.Linear(INPUTS, 16), nn.BatchNorm1d(16)
        self.linear1, self.norm1 = nn.Linear(16, 8), nn.BatchNorm1d(8)
        self.head = nn.Linear(8, CLASSES)

    def forward(self, values, masks):
        values = torch.relu(self.norm0(self.linear0(values))) * masks[0]
        values = torch.relu(self.norm1(self.linear1(values))) * masks[1]
        return self.head(values)


def slow_mask(chance: Chance, place: tuple[int, int, int], shape: tuple[int, int], rate: float):
    """Return dropout factors element by element; `place` is epoch, batch and layer."""
    key = word(chance.key, 2)
    for position in place:
        key = word(key, position)
    dropped = round(rate * 65536)
    factors, words = [], random_words(key, 0, shape[0] * shape[1]).tolist()
    for element in range(shape[0] * shape[1]):
        lane = words[element // 4] >> (16 * (element % 4)) & 0xFFFF
        lane = lane - 65536 if lane >= 32768 else lane
        factors.append(0.0 if lane < dropped - 32768 else 65536 / (65536 - dropped))
    return torch.tensor(factors, dtype=torch.float64).reshape(shape)


def train_by_reference(work: Work) -> dict[str, torch.Tensor]:
    """Return the state after training with torch.optim.SGD, module, and masks made slowly."""
    module = ReferenceMlp().to(work.data.inputs.dtype)
    module.load_state_dict({**work.parameters, **work.buffers}, strict=False)
    settings = work.optimiser
    optimiser = torch.optim.SGD(
        module.parameters(),
        momentum=settings.momentum,
        weight_decay=settings.weight_decay,
        nesterov=settings.nesterov,
    )
    for epoch, rate in enumerate(settings.rates):
        for group in optimiser.param_groups:
            group["lr"] = rate
        order = torch.from_numpy(work.chance.shuffled(epoch, len(work.data)))
        for batch, rows in enumerate(order.split(work.batching.size)):
            if len(rows) < work.batching.smallest:
                continue
            masks = [
                slow_mask(work.chance, (epoch, batch, layer), (len(rows), width), 0.25)
                for layer, width in enumerate((16, 8))
            ]
            masks = [mask.to(work.data.inputs.dtype) for mask in masks]
            optimiser.zero_grad()
            scores = module(work.data.inputs[rows], masks)
            nn.functional.cross_entropy(scores, work.data.targets[rows]).backward()
            optimiser.step()
    return {k: v for k, v in module.state_dict().items() if "num_batches" not in k}


def largest_difference(one, two) -> float:
    """Return the largest difference, relative to each tensor's largest value or 0.1."""
    assert one.keys() == two.keys()
    return max(
        float((one[name] - two[name]).abs().max() / two[name].abs().max().clamp(min=0.1))
        for name in one
    )
