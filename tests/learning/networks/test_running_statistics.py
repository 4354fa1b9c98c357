"""Running statistics that are measured anew: those of torch's own layers, however samples come."""

from __future__ import annotations

import pytest
import torch

from fleetledger.learning.errors import TrainingError
from fleetledger.learning.networks.conversion import to_tensors
from fleetledger.learning.networks.registry import build_network
from fleetledger.learning.networks.running_statistics import measured_statistics
from fleetledger.learning.networks.torch_layers import Mode, forward

pytestmark = pytest.mark.torch

NETWORK = build_network("resnet8", (3, 8, 8), "linear")


@pytest.fixture
def model():
    return to_tensors(NETWORK.initial(1, ("ant", "bee")))


def samples(count: int) -> torch.Tensor:
    return torch.randn(count, 3, 8, 8, generator=torch.Generator().manual_seed(2)) * 2 + 1


def test_a_network_in_use_then_answers_samples_as_it_does_in_training(model):
    parameters, buffers = model
    inputs = samples(200)
    found = measured_statistics(NETWORK, parameters, buffers, [inputs])
    in_use = forward(NETWORK, parameters, found, inputs, Mode()).logits
    training = forward(NETWORK, parameters, buffers, inputs, Mode(training=True)).logits
    assert (in_use - training).abs().max() < 0.01 * training.abs().max()
    before = forward(NETWORK, parameters, buffers, inputs, Mode()).logits
    assert (before - training).abs().max() > 0.1 * training.abs().max()


def test_the_first_layers_statistics_are_those_of_all_its_values(model):
    parameters, buffers = model
    inputs = samples(40)
    found = measured_statistics(NETWORK, parameters, buffers, inputs.split(20))
    values = torch.nn.functional.conv2d(
        inputs.double(), parameters["conv1.weight"].double(), padding=1
    )
    mean = values.mean(dim=(0, 2, 3))
    variances = [half.var(dim=(0, 2, 3)) for half in values.split(20)]
    assert torch.allclose(found["bn1.running_mean"].double(), mean, atol=1e-5)
    assert torch.allclose(found["bn1.running_var"].double(), sum(variances) / 2, rtol=1e-4)


def test_batches_weigh_as_many_samples_as_they_have(model):
    parameters, buffers = model
    inputs = samples(12)
    parts = [inputs[:2], inputs[2:]]
    found = measured_statistics(NETWORK, parameters, buffers, parts)
    one, other = (measured_statistics(NETWORK, parameters, buffers, [part]) for part in parts)
    for name, value in found.items():
        expected = (2 * one[name] + 10 * other[name]) / 12
        assert torch.allclose(value, expected, rtol=1e-4, atol=1e-6), name


def test_given_statistics_do_not_matter_and_stay(model):
    parameters, buffers = model
    far = {name: value + 3 for name, value in buffers.items()}
    kept = {name: value.clone() for name, value in far.items()}
    found = measured_statistics(NETWORK, parameters, far, [samples(8)])
    same = measured_statistics(NETWORK, parameters, buffers, [samples(8)])
    for name, value in found.items():
        assert torch.equal(value, same[name]), name
        assert torch.equal(far[name], kept[name]), name


def test_no_sample_and_a_single_one_have_no_statistics(model):
    with pytest.raises(TrainingError, match="give two"):
        measured_statistics(NETWORK, *model, [])
    with pytest.raises(TrainingError, match="batch"):
        measured_statistics(NETWORK, *model, [samples(1)])
