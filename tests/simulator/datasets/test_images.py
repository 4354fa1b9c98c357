"""Labelled images in memory: pictures, digests, owners, the fingerprint of the whole."""

from dataclasses import replace

import numpy as np
import pytest

from fleetledger.schemas.values import ClassName
from fleetledger.simulator.datasets.images import LabelledImages
from fleetledger.simulator.datasets.samples import SampleSet, picture_digest
from fleetledger.simulator.errors import DatasetError
from tests.simulator.datasets.drawing import pixels

NAMES = (ClassName("eel"), ClassName("fox"))


def images(*shape: int) -> LabelledImages:
    return LabelledImages(
        pixels(0, *(shape or (4, 6, 5, 3))), np.array([0, 1, 1, 0]), NAMES, np.array([3, 3, 8, 9])
    )


@pytest.mark.parametrize("shape", [(4, 6, 5), (4, 6, 5, 3)])
def test_a_picture_holds_the_images_pixels(shape):
    samples: SampleSet = images(*shape)
    picture = samples.picture(2)
    assert picture.mode == ("L" if len(shape) == 3 else "RGB")
    assert np.array_equal(np.asarray(picture), pixels(0, *shape)[2])
    assert samples.digest(2) == picture_digest(picture)


def test_digests_are_equal_exactly_where_pictures_are():
    grey = np.zeros((3, 2, 3), np.uint8)
    grey[2, 0, 0] = 1
    samples = LabelledImages(grey, np.zeros(3, np.int64), NAMES)
    assert samples.digest(0) == samples.digest(1) != samples.digest(2)
    turned = LabelledImages(grey.reshape(3, 3, 2), np.zeros(3, np.int64), NAMES)
    colour = LabelledImages(np.zeros((3, 2, 1, 3), np.uint8), np.zeros(3, np.int64), NAMES)
    assert len({samples.digest(0), turned.digest(0), colour.digest(0)}) == 3


def test_owners_are_taken_along():
    taken = images().take(np.array([3, 1]))
    assert taken.owners is not None
    assert taken.owners.tolist() == [9, 3]
    assert taken.labels.tolist() == [0, 1]


@pytest.mark.parametrize(
    "change",
    [
        {"labels": np.array([0, 1, 0, 0])},
        {"owners": np.array([3, 3, 8, 8])},
        {"owners": None},
        {"class_names": (ClassName("eel"), ClassName("gnu"))},
        {"images": pixels(1, 4, 6, 5, 3)},
        {"images": pixels(0, 4, 5, 6, 3)},
    ],
)
def test_the_fingerprint_is_that_of_everything(change):
    assert images().fingerprint == images().fingerprint
    assert replace(images(), **change).fingerprint != images().fingerprint


def test_the_fingerprint_minds_the_order():
    samples = images()
    assert samples.take(np.array([1, 0, 2, 3])).fingerprint != samples.fingerprint


def test_owners_that_do_not_fit_are_refused():
    with pytest.raises(DatasetError, match="owners"):
        replace(images(), owners=np.array([1, 2]))
