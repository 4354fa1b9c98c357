"""Convolutional networks against torchvision's and torch's modules, forward and in training."""

import pytest
import torch
from torch import nn

from fleetledger.learning.losses.composition import ComposedLoss, Weighted
from fleetledger.learning.losses.terms import CrossEntropy
from fleetledger.learning.networks.body import Body
from fleetledger.learning.networks.conversion import to_tensors
from fleetledger.learning.networks.convnet import ConvNet
from fleetledger.learning.networks.network import Network
from fleetledger.learning.networks.registry import build_network
from fleetledger.learning.networks.resnet import ResNet
from fleetledger.learning.networks.torch_layers import Mode, forward
from fleetledger.learning.training.chance import Chance
from fleetledger.learning.training.loop import train_alone
from fleetledger.learning.training.settings import TrainingEngineSettings
from fleetledger.learning.training.work import Batching, Data, Sgd, Work
from tests.learning.networks.reference import torchvision_module

pytestmark = pytest.mark.torch

NAMES = ["a", "b", "c"]


def state_of(network: Network, seed: int = 0):
    parameters, buffers = to_tensors(network.initial(seed, NAMES))
    return (
        {name: value.double() for name, value in parameters.items()},
        {name: value.double() for name, value in buffers.items()},
    )


def pictures(samples: int, channels: int, side: int):
    generator = torch.Generator().manual_seed(1)
    return torch.randn(samples, channels, side, side, generator=generator).double()


class Classifier(nn.Module):
    """Torch's own body with our names, and a linear head."""

    def __init__(self, body: nn.Module, width: int):
        super().__init__()
        self.body, self.head = body, nn.Linear(width, len(NAMES))

    def load(self, parameters, buffers):
        ours = {
            (name if name.startswith("head") else f"body.{name}"): value
            for name, value in {**parameters, **buffers}.items()
        }
        missing, unexpected = self.load_state_dict(ours, strict=False)
        assert not unexpected
        assert all(name.endswith("num_batches_tracked") for name in missing)
        return self

    def state(self):
        return {
            name.removeprefix("body."): value.detach()
            for name, value in self.state_dict().items()
            if "num_batches" not in name
        }

    def forward(self, values):
        return self.head(self.body(values))


class OnceThenNothing(nn.Module):
    """A block's one ReLU, called after its first convolution and at its end: there it is absent."""

    def __init__(self):
        super().__init__()
        self.ends = False

    def forward(self, values):
        self.ends = not self.ends
        return values.relu() if self.ends else values


def reference_resnet(widths, blocks, channels, signed=False):
    block = torchvision_module("models").resnet.BasicBlock
    parts, inputs = {}, widths[0]
    parts["conv1"] = nn.Conv2d(channels, inputs, 3, padding=1, bias=False)
    parts["bn1"], parts["relu"] = nn.BatchNorm2d(inputs), nn.ReLU()
    for group, (width, count) in enumerate(zip(widths, blocks, strict=True)):
        stride, down = (2 if group else 1), None
        if stride != 1 or inputs != width:
            conv = nn.Conv2d(inputs, width, 1, stride, bias=False)
            down = nn.Sequential(conv, nn.BatchNorm2d(width))
        first = block(inputs, width, stride, down)
        rest = [block(width, width) for _ in range(count - 1)]
        parts[f"layer{group + 1}"], inputs = nn.Sequential(first, *rest), width
    if signed:
        last = parts[f"layer{len(widths)}"][-1]
        last.relu = OnceThenNothing()
    body = nn.Sequential()
    for name, part in parts.items():
        body.add_module(name, part)
    body.add_module("pool", nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten()))
    return Classifier(body, widths[-1]).double()


def reference_convnet(widths, channels):
    body, inputs = nn.Sequential(), channels
    for layer, width in enumerate(widths):
        body.add_module(f"conv{layer}", nn.Conv2d(inputs, width, 3, padding=1, bias=False))
        body.add_module(f"norm{layer}", nn.BatchNorm2d(width))
        body.add_module(f"end{layer}", nn.Sequential(nn.ReLU(), nn.MaxPool2d(2)))
        inputs = width
    body.add_module("pool", nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten()))
    return Classifier(body, widths[-1]).double()


SMALL: dict[str, tuple[Body, nn.Module]] = {
    "resnet": (ResNet(2, (4, 6), (1, 2)), lambda: reference_resnet((4, 6), (1, 2), 2)),
    "signed resnet": (
        ResNet(2, (4, 6), (1, 2), signed=True),
        lambda: reference_resnet((4, 6), (1, 2), 2, signed=True),
    ),
    "convnet": (ConvNet(2, (4, 6)), lambda: reference_convnet((4, 6), 2)),
}


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("family", SMALL)
def test_a_pass_is_that_of_torchs_modules(family, training):
    network, module = Network(SMALL[family][0]), SMALL[family][1]()
    parameters, buffers = state_of(network)
    module.load(parameters, buffers).train(training)
    values = pictures(5, 2, 9)
    ours = forward(network, parameters, buffers, values, Mode(training))
    assert torch.allclose(ours.logits, module(values), atol=1e-12)
    assert all(torch.allclose(ours.buffers[n], module.state()[n]) for n in buffers)
    assert ours.features.shape == (5, 6)


@pytest.mark.parametrize("family", SMALL)
def test_forty_steps_of_the_loop_are_those_of_torchs_optimiser(family):
    network, module = Network(SMALL[family][0]), SMALL[family][1]()
    parameters, buffers = state_of(network)
    module.load(parameters, buffers).train()
    data = Data(pictures(19, 2, 8), torch.arange(19) % 3)
    work = Work(
        parameters,
        buffers,
        data,
        ComposedLoss(network, (Weighted(1.0, CrossEntropy()),)),
        Sgd((0.05,) * 8, momentum=0.9, weight_decay=1e-3),
        Batching(4),
        Chance(1, "a"),
    )
    trained = train_alone(work, TrainingEngineSettings())
    assert trained.steps == 40
    optimiser = torch.optim.SGD(module.parameters(), 0.05, momentum=0.9, weight_decay=1e-3)
    for epoch in range(8):
        order = torch.from_numpy(work.chance.shuffled(epoch, 19))
        for rows in order.split(4):
            optimiser.zero_grad()
            nn.functional.cross_entropy(module(data.inputs[rows]), data.targets[rows]).backward()
            optimiser.step()
    ours = {**trained.parameters, **trained.buffers}
    assert max(float((ours[n] - v).abs().max()) for n, v in module.state().items()) < 1e-12


@pytest.mark.parametrize("name", ["resnet8", "resnet18", "resnet20", "resnet32"])
def test_a_signed_network_has_the_same_tensors_and_features_below_zero(name):
    plain, signed = (build_network(n, (3, 16, 16), "cosine") for n in (name, f"{name}_signed"))
    assert signed.shapes(3) == plain.shapes(3)
    values = pictures(4, 3, 16)
    one, other = (forward(n, *state_of(plain), values, Mode()) for n in (plain, signed))
    assert float(one.features.min()) >= 0
    assert float(other.features.min()) < 0


def test_resnet18_has_the_tensors_of_torchvisions_but_for_stem_and_classifier():
    models = torchvision_module("models")
    theirs = {
        name: tuple(value.shape)
        for name, value in models.resnet18().state_dict().items()
        if "num_batches" not in name and not name.startswith("fc")
    }
    ours = build_network("resnet18", (3, 32, 32)).shapes(3)
    assert theirs | {"conv1.weight": (64, 3, 3, 3)} == {
        name: shape for name, shape in ours.items() if not name.startswith("head")
    }


@pytest.mark.parametrize(
    ("name", "millions"),
    [("resnet18", 11.17), ("resnet32", 0.46), ("resnet20", 0.27), ("resnet8", 0.078)],
)
def test_networks_have_about_as_many_weights_as_published(name, millions):
    network = build_network(name, (3, 32, 32))
    parameters, _ = to_tensors(network.initial(0, []))
    assert sum(value.numel() for value in parameters.values()) / 1e6 == pytest.approx(
        millions, rel=0.02
    )


@pytest.mark.parametrize("name", ["resnet8", "resnet32", "convnet"])
def test_first_weights_carry_the_signal_through_all_layers(name):
    network = build_network(name, (3, 32, 32))
    given = to_tensors(network.initial(0, NAMES))
    made = forward(network, *given, pictures(8, 3, 32).float(), Mode(True))
    assert 0.05 < float(made.features.std()) < 5
    assert float(made.features.std(dim=0).mean()) > 0.02
