"""Contributions of class sums: what goes through, and what is refused."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pytest

from fleetledger.methods.errors import ContributionError, MethodError
from fleetledger.methods.fedncm.device import DEVICE
from fleetledger.methods.statistics.assignment import FeatureAssignment
from fleetledger.methods.statistics.class_sums import ClassSums, check_sums, encode_sums
from fleetledger.methods.statistics.part import NO_CONTEXT
from fleetledger.methods.statistics.part_settings import StatisticsSettings
from fleetledger.schemas.values import ClassName
from tests.methods.samples import NAMES, WIDTH, make_samples


class Told(FeatureAssignment[StatisticsSettings]):
    kind: ClassVar[str] = "told-in-a-test"


def told(**settings: Any) -> Told:
    return Told.of(settings, WIDTH)


def payload_of(names: tuple[str, ...], counts: list[int], sums: np.ndarray) -> bytes:
    named = tuple(ClassName(name) for name in names)
    return encode_sums(ClassSums(named, np.array(counts, np.int64), sums.astype(np.int64)))


def test_sums_and_counts_of_each_class_arrive():
    samples = make_samples(1)
    made = DEVICE.finish(told(), samples.features, samples.labels, NO_CONTEXT)
    part = check_sums(told(), made.payload)
    assert part.class_names == NAMES
    assert part.samples_per_class == made.samples == dict.fromkeys(NAMES, 40)
    assert np.array_equal(part.sums, samples.one_hot.T @ samples.features)


def test_sums_that_no_samples_have_are_refused():
    sums = np.zeros((1, WIDTH))
    sums[0, 5] = -127 * 4 - 1
    with pytest.raises(ContributionError, match="feature 5 of class 'cat'; 4 samples"):
        check_sums(told(), payload_of(("cat",), [4], sums))
    sums[0, 5] += 1
    assert check_sums(told(), payload_of(("cat",), [4], sums)).sums[0, 5] == -127 * 4


@pytest.mark.parametrize(
    ("names", "counts", "rows", "message"),
    [
        (("dog", "cat"), [2, 2], 2, "give one per class, sorted"),
        (("cat",), [2, 2], 2, "1 name for 2 counts"),
        (("cat", "dog"), [2, 2], 1, "1 row for 2 counts"),
        (("cat",), [1], 1, "at least 2 of each"),
        (("cat",), [1001], 1, "at most 1000"),
    ],
)
def test_payloads_that_do_not_fit_together_are_refused(names, counts, rows: int, message: str):
    with pytest.raises(ContributionError, match=message):
        check_sums(told(), payload_of(names, counts, np.zeros((rows, WIDTH))))


def test_another_width_and_bytes_that_are_no_payload_are_refused():
    with pytest.raises(ContributionError, match="sums"):
        check_sums(told(), payload_of(("cat",), [2], np.zeros((1, WIDTH + 1))))
    with pytest.raises(ContributionError):
        check_sums(told(), b"no payload at all")


def test_a_class_that_was_not_assigned_is_refused_on_both_sides():
    narrow = told().model_copy(update={"class_names": (ClassName("cat"),)})
    payload = payload_of(("dog",), [2], np.zeros((1, WIDTH)))
    with pytest.raises(ContributionError, match="'dog' was not assigned"):
        check_sums(narrow, payload)
    with pytest.raises(MethodError, match="'dog' was not assigned"):
        DEVICE.finish(narrow, np.zeros((2, WIDTH), np.float32), ["dog"] * 2, NO_CONTEXT)


def test_features_that_are_none_are_refused():
    labels = ["cat"] * 2
    for wrong in (0.5, 128.0, np.nan):
        features = np.full((2, WIDTH), wrong, np.float32)
        with pytest.raises(MethodError, match="features:"):
            DEVICE.finish(told(), features, labels, NO_CONTEXT)
    with pytest.raises(MethodError, match="features: shape"):
        DEVICE.finish(told(), np.zeros((2, WIDTH - 1), np.float32), labels, NO_CONTEXT)


def test_a_part_must_have_room_for_the_fewest_samples_of_a_class():
    with pytest.raises(MethodError, match="max_samples_per_part: 1"):
        told(max_samples_per_part=1)
    assert told(max_samples_per_part=1, min_samples_per_class=1).columns == WIDTH
