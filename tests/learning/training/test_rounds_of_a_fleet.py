"""All parts together: a fleet learns digits in rounds, and its order or engine does not matter."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch

datasets = pytest.importorskip("sklearn.datasets")

from fleetledger.learning.losses.composition import ComposedLoss, Weighted  # noqa: E402
from fleetledger.learning.losses.terms import CrossEntropy, Proximal  # noqa: E402
from fleetledger.learning.networks.conversion import to_arrays, to_tensors  # noqa: E402
from fleetledger.learning.networks.head import grow_head  # noqa: E402
from fleetledger.learning.networks.inference import Inference  # noqa: E402
from fleetledger.learning.networks.registry import build_network  # noqa: E402
from fleetledger.learning.numerics.weights import SumLimits, WeightGrid, WeightSum  # noqa: E402
from fleetledger.learning.training.chance import Chance  # noqa: E402
from fleetledger.learning.training.engine import train  # noqa: E402
from fleetledger.learning.training.schedules import constant_rates  # noqa: E402
from fleetledger.learning.training.settings import TrainingEngineSettings  # noqa: E402
from fleetledger.learning.training.work import Batching, Data, Sgd, Work  # noqa: E402

pytestmark = pytest.mark.torch

DEVICES, ROUNDS = 8, 4
NAMES = [f"digit {label}" for label in range(10)]


@dataclass(frozen=True)
class Fleet:
    name: str
    shape: tuple[int, ...]
    engine: str

    def data(self, rows):
        pixels, labels = datasets.load_digits(return_X_y=True)
        inputs = pixels.reshape(-1, *self.shape).astype(np.float32) / 16
        return Data(torch.from_numpy(inputs[rows]), torch.from_numpy(labels[rows]))

    def learn(self, order):
        """Return the model after all rounds, contributions added in that order."""
        network = build_network(self.name, self.shape)
        model = grow_head(network.initial(3, NAMES[:4]), NAMES[4:], 3)
        terms = (Weighted(1.0, CrossEntropy()), Weighted(0.01, Proximal("anchor")))
        for number in range(ROUNDS):
            parameters, buffers = to_tensors(model)
            works = [
                Work(
                    parameters,
                    buffers,
                    self.data(np.arange(device**2, 1500, DEVICES)),
                    ComposedLoss(network, terms),
                    Sgd(constant_rates(0.1, 2), 0.9, 5e-4),
                    Batching(16),
                    Chance(1, f"device-{device}", round=number),
                    frozen={"anchor": parameters},
                )
                for device in range(DEVICES)
            ]
            results = train(works, TrainingEngineSettings(self.engine))
            grid = WeightGrid.around(model)
            total = WeightSum(grid, SumLimits(DEVICES, 1500))
            for device in order:
                made = results[device]
                total.add(grid.encode(to_arrays(made.parameters, made.buffers)), made.samples)
            model = total.mean()
        return model

    def accuracy(self, model):
        data = self.data(np.arange(1500, 1797))
        logits = Inference()(build_network(self.name, self.shape), *to_tensors(model), data.inputs)
        return float((logits.logits.argmax(dim=1) == data.targets).double().mean())


@pytest.mark.parametrize(
    "fleet",
    [
        Fleet("mlp", (64,), "stack"),
        pytest.param(Fleet("convnet", (1, 8, 8), "loop"), marks=pytest.mark.nightly),
    ],
    ids=str,
)
def test_a_fleet_learns_digits_and_the_order_of_arrival_does_not_matter(fleet):
    model = fleet.learn(range(DEVICES))
    again = fleet.learn([3, 1, 7, 5, 0, 2, 6, 4])
    assert all(np.array_equal(model[name], again[name]) for name in model)
    assert fleet.accuracy(model) > 0.88


def test_loop_and_stack_lead_to_nearly_the_same_model():
    loop, stack = (
        Fleet("mlp", (64,), engine).learn(range(DEVICES)) for engine in ("loop", "stack")
    )
    assert max(np.abs(loop[name] - stack[name]).max() for name in loop) < 1e-3
