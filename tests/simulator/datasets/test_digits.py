"""The digits data set and its split."""

import numpy as np
import pytest

from fleetledger.simulator.datasets.digits import load_digits, split_digits
from fleetledger.simulator.datasets.images import LabelledImages
from fleetledger.simulator.errors import DatasetError


def rows(part: LabelledImages) -> set[bytes]:
    pairs = zip(part.images, part.labels, strict=True)
    return {image.tobytes() + bytes([label]) for image, label in pairs}


def test_the_digits_are_scikit_learns_scaled_to_eight_bits_and_rounded():
    from sklearn.datasets import load_digits as load_scikit_digits

    digits = load_digits()
    library = load_scikit_digits()
    original = library.images
    assert np.array_equal(digits.labels, library.target)
    assert digits.images.shape == (1797, 8, 8)
    assert digits.images.dtype == np.uint8
    assert digits.images.max() == 255
    for value, expected in ((0, 0), (1, 16), (7, 112), (8, 128), (16, 255)):
        assert set(digits.images[original == value].tolist()) == {expected}


def test_every_image_is_in_exactly_one_part_of_the_split():
    split = split_digits(seed=3)
    together = np.concatenate([split.train.images, split.test.images]).reshape(1797, 64)
    everything = load_digits().images.reshape(1797, 64)
    assert np.array_equal(np.sort(together, axis=0), np.sort(everything, axis=0))
    assert rows(split.train).isdisjoint(rows(split.test))


def test_a_quarter_of_every_class_is_for_testing():
    split = split_digits(seed=3)
    for name, trained in split.train.counts().items():
        tested = split.test.counts()[name]
        assert tested == round(0.25 * (trained + tested))


def test_the_seed_decides_the_split():
    first, again, other = split_digits(seed=1), split_digits(seed=1), split_digits(seed=2)
    assert np.array_equal(first.test.images, again.test.images)
    assert not np.array_equal(first.test.labels, other.test.labels)


@pytest.mark.parametrize("share", [0.0, 1.0, -0.1, float("nan")])
def test_a_share_that_leaves_a_part_empty_is_refused(share: float):
    with pytest.raises(DatasetError, match="test_share"):
        split_digits(seed=0, test_share=share)


def test_images_of_some_classes_are_found_in_order():
    digits = load_digits()
    found = digits.of_classes((3, 8))
    assert found.tolist() == [i for i, label in enumerate(digits.labels) if label in (3, 8)]
    assert digits.take(found).counts() == {"3": 183, "8": 174}


@pytest.mark.parametrize(
    ("images", "labels", "named"),
    [
        (np.zeros((2, 8, 8)), np.zeros(2, np.int64), "images"),
        (np.zeros((2, 64), np.uint8), np.zeros(2, np.int64), "images"),
        (np.zeros((2, 8, 8), np.uint8), np.zeros(3, np.int64), "labels"),
        (np.zeros((2, 8, 8), np.uint8), np.array([0, 10]), "labels"),
        (np.zeros((2, 8, 8), np.uint8), np.array([-1, 0]), "labels"),
    ],
)
def test_arrays_that_do_not_fit_are_refused_by_name(images, labels, named: str):
    names = load_digits().class_names
    with pytest.raises(DatasetError, match=named):
        LabelledImages(images, labels, names)
