"""A network in use, batch by batch."""

import pytest
import torch

from fleetledger.learning.networks.inference import Inference
from fleetledger.learning.networks.mlp import Mlp
from fleetledger.learning.networks.network import Network
from fleetledger.learning.networks.pictures import Pictures
from fleetledger.learning.networks.torch_layers import Mode, forward
from tests.learning.training.agents import make_data, tensors

pytestmark = pytest.mark.torch

NETWORK = Network(Mlp(6, (8, 4), dropout=0.5))
STATE = tensors(NETWORK, torch.float64)
INPUTS = make_data(11, torch.float64, 1).inputs


@pytest.mark.parametrize("rows", [11, 0])
@pytest.mark.parametrize("batch_size", [4, 11, 100])
def test_batches_do_not_matter(rows, batch_size):
    whole = forward(NETWORK, *STATE, INPUTS[:rows], Mode())
    found = Inference(batch_size)(NETWORK, *STATE, INPUTS[:rows])
    assert torch.allclose(found.logits, whole.logits, atol=1e-14)
    assert torch.allclose(found.features, whole.features, atol=1e-14)
    assert found.logits.shape == (rows, 4)


def test_nothing_remembers_how_it_was_made():
    parameters = {name: value.clone().requires_grad_() for name, value in STATE[0].items()}
    assert not Inference()(NETWORK, parameters, STATE[1], INPUTS).logits.requires_grad


def test_bytes_are_normalised_on_the_way():
    network = Network(Mlp(2, (3,)))
    state = tensors(network, torch.float32)
    raw = torch.randint(0, 256, (5, 1, 1, 2), dtype=torch.uint8)

    class Flat:
        def on(self, device):
            return lambda given: Pictures((0.5,), (0.5,)).normalise(given).flatten(1)

    found = Inference(2, Flat())(network, *state, raw)
    wanted = forward(network, *state, (raw.flatten(1) / 255 - 0.5) / 0.5, Mode())
    assert torch.allclose(found.logits, wanted.logits, atol=1e-6)


def test_bfloat16_gives_nearly_the_same_in_the_parameters_type():
    network = Network(Mlp(6, (8, 4)))
    state = tensors(network, torch.float32)
    full, half = (
        Inference(autocast=flag)(network, *state, INPUTS.float()).logits for flag in (False, True)
    )
    assert half.dtype == torch.float32
    assert 0 < float((full - half).abs().max()) < 0.05
