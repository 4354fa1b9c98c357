"""Images as files, the shared set, and the one that is made."""

from __future__ import annotations

import numpy as np
import pytest

from fleetledger.methods.dcid.images import (
    checked_images,
    decode_images,
    encode_images,
    shuffled,
    synthetic_images,
)
from fleetledger.methods.errors import ContributionError, MethodError
from fleetledger.schemas.tensors import encode_tensors

SHAPE = (1, 4, 4)


def images(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (count, *SHAPE)).astype(np.uint8)


def test_images_arrive_as_they_are():
    block = images(5)
    assert (decode_images(encode_images(block), SHAPE, 5) == block).all()


def test_the_shared_set_is_every_image_in_an_order_that_tells_no_site():
    blocks = [images(6, seed) for seed in range(3)]
    found = shuffled(blocks, 1)
    assert (found == shuffled(blocks[::-1], 1)).all()
    assert sorted(map(bytes, found)) == sorted(bytes(image) for block in blocks for image in block)
    assert (found != np.concatenate(blocks)).any()
    assert (found != shuffled(blocks, 2)).any()


def test_the_same_image_of_two_sites_is_there_twice():
    assert len(shuffled([images(2), images(2)], 1)) == 4


@pytest.mark.parametrize(
    ("tensors", "told"),
    [
        ({"images": images(6)}, "does not fit"),
        ({"images": images(0)}, "there is none"),
        ({"images": np.zeros((2, 1, 4, 5), np.uint8)}, "does not fit"),
        ({"images": np.zeros((2, *SHAPE), np.float32)}, "does not fit"),
        ({"images": images(2), "labels": np.zeros(2, np.int64)}, "labels: unknown"),
        ({}, "images: is missing"),
    ],
)
def test_anything_else_is_refused_by_name(tensors, told):
    with pytest.raises(ContributionError, match=told):
        decode_images(encode_tensors(tensors), SHAPE, 5)


@pytest.mark.parametrize(
    "given", [np.zeros((3, 1, 4, 5), np.uint8), np.zeros((3, *SHAPE), np.float32), images(1)]
)
def test_public_images_of_another_size_are_refused(given):
    with pytest.raises(MethodError, match="shared: "):
        checked_images(given, SHAPE)


def test_made_images_are_of_the_seed_alone_and_smooth():
    found = synthetic_images(3, 40, (3, 16, 16))
    assert found.shape == (40, 3, 16, 16)
    assert found.dtype == np.uint8
    synthetic_images.cache_clear()
    assert (found == synthetic_images(3, 40, (3, 16, 16))).all()
    assert (found[:20] == synthetic_images(3, 20, (3, 16, 16))).all()
    assert (found != synthetic_images(4, 40, (3, 16, 16))).any()
    steps = np.abs(np.diff(found.astype(int), axis=-1))
    assert steps.max() <= 255 * 4 // 15 + 1
    assert found.std(axis=(1, 2, 3)).mean() > 30
    assert len({image.tobytes() for image in found}) == 40


def test_made_images_can_have_a_side_of_one():
    assert synthetic_images(1, 2, (1, 1, 8)).shape == (2, 1, 1, 8)
