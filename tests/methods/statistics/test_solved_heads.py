"""Heads as bytes, with and without what tells how new a sample is."""

from __future__ import annotations

import numpy as np
import pytest

from fleetledger.learning.numerics.score_novelty import ScoreNovelty
from fleetledger.methods.errors import MethodError
from fleetledger.methods.statistics.linear_head import LinearHead
from fleetledger.methods.statistics.solved_heads import decode_head, encode_head
from fleetledger.schemas.errors import TensorError
from fleetledger.schemas.tensors import encode_tensors
from fleetledger.schemas.values import ClassName

NAMES = tuple(map(ClassName, "abc"))
WEIGHTS = np.arange(12, dtype=np.float32).reshape(3, 4)


def head(rows: tuple[int, ...] = (2, 0)) -> LinearHead:
    count = len(rows)
    square = np.arange(count * count, dtype=np.float32).reshape(count, count)
    centre = np.ones(count, np.float32)
    novelty = ScoreNovelty(np.array(rows), centre, square, square + 1, square + 2)
    return LinearHead(WEIGHTS, NAMES, novelty=novelty)


def test_what_was_encoded_comes_back() -> None:
    found = decode_head(encode_head(head()), (3, 4))
    assert np.array_equal(found.weights, WEIGHTS)
    assert found.novelty is not None
    for name, array in vars(head().novelty).items():
        assert np.array_equal(getattr(found.novelty, name), array)
    assert [list(tensors) for tensors in found.tensors] == [
        ["weights"],
        ["rows", "centre", "within", "means", "overall"],
    ]


def test_without_novelty_it_is_the_bytes_of_the_weights_alone() -> None:
    data = encode_head(LinearHead(WEIGHTS, NAMES))
    assert data == encode_tensors({"weights": WEIGHTS})
    found = decode_head(data, (3, 4))
    assert found.novelty is None
    assert len(found.tensors) == 1


@pytest.mark.parametrize("rows", [(0, 3), (-1, 0), (1, 1)])
def test_rows_that_the_head_has_not_are_refused(rows: tuple[int, ...]) -> None:
    with pytest.raises(MethodError, match="rows: not those of 3 classes"):
        decode_head(encode_head(head(rows)), (3, 4))


@pytest.mark.parametrize("classes", [1, 4, "two", 2.0])
def test_a_number_of_classes_that_cannot_be_is_refused(classes: object) -> None:
    data = encode_tensors({"weights": WEIGHTS}, {"novelty_classes": classes})
    with pytest.raises(MethodError, match=r"novelty_classes: .* of 3 classes"):
        decode_head(data, (3, 4))


def test_a_head_of_another_shape_is_refused() -> None:
    with pytest.raises(TensorError, match="weights"):
        decode_head(encode_head(head()), (3, 5))
