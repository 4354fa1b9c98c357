"""The distance of gradients, which a search computes without the gradients of the last layer."""

import pytest
import torch

from fleetledger.methods.lga.distance import GradientDistance
from fleetledger.methods.lga.encoding import Encoding

pytestmark = pytest.mark.torch

ROWS = 4


def made(encoding: Encoding, seed: int) -> torch.Tensor:
    """Return random pictures as points."""
    generator = torch.Generator().manual_seed(seed)
    numbers = encoding.channels * encoding.side**2
    return torch.rand(ROWS, numbers, generator=generator, dtype=torch.float64)


@pytest.mark.parametrize("shape", [(1, 8, 200), (3, 32, 10), (2, 28, 5), (3, 84, 7)])
@pytest.mark.parametrize("rows", [[0, 1, 2, 3], [3, 1]], ids=["all", "some"])
def test_distance_and_its_gradient_are_those_of_the_gradients_themselves(shape, rows):
    encoding, labels = Encoding(*shape, seed=2), torch.tensor([0, 1, 2, 1])
    pictures = made(encoding, 1).reshape(ROWS, *shape[:1], shape[1], shape[1])
    sent = {name: one.detach() for name, one in encoding.gradients(pictures, labels).items()}
    places = torch.tensor(rows)

    def slow(points):
        found = encoding.gradients(points.reshape(pictures.shape)[places], labels[places])
        parts = [(found[name] - sent[name][places]).square().flatten(1).sum(1) for name in sent]
        return torch.stack(parts).sum(dim=0)

    points = made(encoding, 2).requires_grad_()
    distance = GradientDistance(encoding, sent, labels)
    one, other = distance(points[places], places), slow(points)
    torch.testing.assert_close(one, other, rtol=1e-11, atol=0)
    slopes = [torch.autograd.grad(values.sum(), points)[0] for values in (one, other)]
    torch.testing.assert_close(*slopes, rtol=1e-9, atol=1e-12 * float(slopes[1].abs().max()))


def test_rows_that_are_asked_for_may_change():
    encoding, labels = Encoding(1, 8, 5, seed=1), torch.tensor([0, 1, 2, 3])
    points = made(encoding, 3)
    sent = encoding.gradients(points.reshape(ROWS, 1, 8, 8), labels)
    distance = GradientDistance(encoding, sent, labels)
    for rows in ([0, 2], [1, 3], [1, 3], [0, 1, 2, 3], [2]):
        places = torch.tensor(rows)
        assert distance(points[places], places).abs().max() < 1e-12
        assert distance(points[places].flip(1), places).min() > 1e-3
