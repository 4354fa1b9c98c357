"""What travels to the proxy, and what it refuses to read."""

import pytest
import torch

from fleetledger.methods.errors import ContributionError
from fleetledger.methods.lga.encoding import Encoding
from fleetledger.methods.lga.gradient_sets import GradientSet, decode_gradients, encode_gradients
from fleetledger.runtime.errors import SchemaError
from fleetledger.schemas.tensors import encode_tensors

pytestmark = pytest.mark.torch

ENCODING = Encoding(1, 8, 4, seed=1)


def made(rows: int) -> list[GradientSet]:
    pictures = torch.rand(rows, 1, 8, 8, generator=torch.Generator().manual_seed(rows))
    found = ENCODING.gradients(pictures, torch.arange(rows) % 4)
    return [
        GradientSet({name: t[row] for name, t in found.items()}, 0.5 + row) for row in range(rows)
    ]


def test_sets_come_back_with_their_traces():
    sets = made(3)
    found = decode_gradients(ENCODING, encode_gradients(sets))
    assert sorted(item.trace for item in found) == [0.5, 1.5, 2.5]
    for item in found:
        original = next(one for one in sets if one.trace == item.trace)
        for name, gradient in original.gradients.items():
            assert torch.equal(item.gradients[name], gradient)


def test_the_order_of_a_devices_classes_is_not_told():
    sets = made(4)
    assert encode_gradients(sets) == encode_gradients(sets[::-1])


def broken(**changes):
    sets = made(2)
    tensors = {
        name: torch.stack([item.gradients[name] for item in sets]).numpy()
        for name in ENCODING.shapes
    }
    metadata = {"traces": [0.5, 0.5]}
    for name, value in changes.items():
        if name == "traces":
            metadata["traces"] = value
        elif value is None:
            del tensors[name]
        else:
            tensors[name] = value
    return encode_tensors(tensors, metadata)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"1.bias": None}, "1.bias"),
        ({"1.bias": torch.zeros(2, 5).numpy()}, "1.bias"),
        ({"1.bias": torch.zeros(1, 12).numpy()}, "2 traces for tensors of"),
        ({"traces": [0.5]}, "1 traces for tensors of"),
        ({"traces": []}, "at least one set"),
        ({"traces": [0.5, -1.0]}, "trace -1.0"),
        ({"traces": [0.5, True]}, "trace True"),
        ({"traces": "many"}, "must be a list"),
    ],
)
def test_what_is_no_set_of_gradients_is_refused_by_name(changes, words):
    with pytest.raises(ContributionError, match=words):
        decode_gradients(ENCODING, broken(**changes))


def test_gradients_that_left_the_numbers_are_not_sent():
    bad = GradientSet(
        {name: torch.full(shape, torch.nan) for name, shape in ENCODING.shapes.items()}
    )
    with pytest.raises(SchemaError, match="not finite"):
        encode_gradients([bad])
