"""The encoding network, and the labels that its gradients tell."""

import subprocess
import sys

import numpy as np
import pytest
import torch

from fleetledger.methods.errors import ContributionError, MethodError
from fleetledger.methods.lga.encoding import LAYERS, Encoding
from fleetledger.methods.lga.recovery import recover_label

pytestmark = pytest.mark.torch

LAST = f"{LAYERS}.weight"


def slow_gradients(encoding, picture, label):
    tensors = {name: t.double().requires_grad_() for name, t in encoding.tensors.items()}
    scores = encoding.scores(tensors, picture.unsqueeze(0))
    loss = torch.nn.functional.cross_entropy(scores, torch.tensor([label]))
    return dict(zip(tensors, torch.autograd.grad(loss, list(tensors.values())), strict=True))


def test_a_set_of_gradients_has_the_numbers_of_the_paper():
    assert Encoding(3, 32, 100, seed=1).numbers == 85_036


@pytest.mark.parametrize("side", [8, 16, 32, 64, 84])
def test_the_linear_layer_sees_768_features_at_the_papers_sizes(side):
    assert Encoding(3, side, 10, seed=1).shapes[LAST] == (10, 768)


def test_other_sizes_follow_the_map():
    encoding = Encoding(1, 28, 5, seed=1)
    pictures, labels = torch.rand(2, 1, 28, 28), torch.tensor([0, 4])
    found = encoding.gradients(pictures, labels)
    assert {name: tuple(t.shape[1:]) for name, t in found.items()} == encoding.shapes


def test_gamma_is_the_same_wherever_its_seed_is_known():
    one, again, other = Encoding(1, 8, 10, 1), Encoding(1, 8, 10, 1), Encoding(1, 8, 10, 2)
    for name, tensor in one.tensors.items():
        assert torch.equal(tensor, again.tensors[name])
        assert not torch.equal(tensor, other.tensors[name])
        assert tensor.abs().max() < 0.5
        assert tensor.numel() < 1000 or abs(tensor.std().item() - 1 / 12**0.5) < 0.02


def test_gradients_of_many_are_those_of_each():
    encoding = Encoding(3, 16, 7, seed=3)
    pictures = torch.rand(4, 3, 16, 16, dtype=torch.float64)
    labels = torch.tensor([6, 0, 3, 3])
    found = encoding.gradients(pictures, labels)
    for row in range(4):
        expected = slow_gradients(encoding, pictures[row], int(labels[row]))
        for name, gradient in expected.items():
            torch.testing.assert_close(found[name][row], gradient, rtol=1e-9, atol=1e-12)


def test_labels_are_recovered_of_a_thousand_random_pictures():
    encoding = Encoding(1, 8, 20, seed=5)
    generator = torch.Generator().manual_seed(1)
    pictures = torch.rand(1000, 1, 8, 8, generator=generator)
    labels = torch.randint(0, 20, (1000,), generator=generator)
    last = encoding.gradients(pictures, labels)[LAST].numpy()
    assert [recover_label(gradient) for gradient in last] == labels.tolist()


def test_gradients_of_no_class_are_refused():
    with pytest.raises(ContributionError, match="no row of the last layer is negative"):
        recover_label(np.ones((5, 8), np.float32))
    with pytest.raises(ContributionError, match="belong to no class"):
        recover_label(np.full((5, 8), np.nan, np.float32))


def test_a_network_that_cannot_be_is_refused():
    with pytest.raises(MethodError, match="at least 4 pixels a side and 2 classes"):
        Encoding(3, 2, 10, seed=1)


def test_gradients_need_no_modules_that_take_a_second_to_import():
    """`torch.func` imports `torch._dynamo` and SymPy with its first call: a second of a device."""
    program = (
        "import sys, torch\n"
        "from fleetledger.methods.lga.encoding import Encoding\n"
        "Encoding(1, 8, 10, 1).gradients(torch.rand(2, 1, 8, 8), torch.tensor([0, 1]))\n"
        "print(*[name for name in ('torch._dynamo', 'sympy') if name in sys.modules])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == []
