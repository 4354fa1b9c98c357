"""What leaves a device under the pooled head, and what the coordinator refuses."""

from __future__ import annotations

import numpy as np
import pytest

from fleetledger.methods.descriptor import LEARN
from fleetledger.methods.errors import ContributionError, MethodError
from fleetledger.methods.pooled import DESCRIPTOR
from fleetledger.methods.pooled.coordinator import COORDINATOR
from fleetledger.methods.pooled.device import DEVICE
from fleetledger.methods.pooled.messages import ClassFeatures, ClassMoments, encode_published
from fleetledger.methods.statistics.part import PartContext
from fleetledger.runtime.errors import SchemaError
from fleetledger.schemas.tensors import encode_tensors
from tests.methods.pooled.making import FEATURES, MOMENTS, payload_of
from tests.methods.samples import NAMES, WIDTH, make_samples

NAME = NAMES[:1]


def features(rows: list[list[int]], counts: list[int] | None = None) -> ClassFeatures:
    h = np.array(rows, np.int8)
    return ClassFeatures(NAME, np.array(counts or [len(rows)]), h)


def moments(count: int, sums: list[int], squares: list[int]) -> ClassMoments:
    return ClassMoments(NAME, np.array([count]), np.array([sums]), np.array([squares]))


def test_the_card_says_that_features_travel_and_that_no_torch_is_needed():
    assert DESCRIPTOR.payload_kinds == ("features",)
    assert DESCRIPTOR.can_run(LEARN, frozenset({"numpy", "onnxruntime"}))


def test_features_of_every_sample_arrive_under_their_class():
    samples = make_samples(1)
    made = DEVICE.finish(FEATURES, samples.features, samples.labels)
    part = COORDINATOR.check(FEATURES, made.payload)
    assert isinstance(part, ClassFeatures)
    assert made.samples == part.samples_per_class == dict.fromkeys(NAMES, 40)
    labels = np.array(samples.labels)
    for name, rows in part.by_class.items():
        own = samples.features[labels == name].astype(np.int8)
        assert sorted(map(bytes, rows)) == sorted(map(bytes, own))
        assert [bytes(row) for row in rows] == sorted(map(bytes, rows))


def test_moments_are_sums_over_a_class_and_tell_no_sample():
    samples = make_samples(2)
    made = DEVICE.finish(MOMENTS, samples.features, samples.labels)
    part = COORDINATOR.check(MOMENTS, made.payload)
    assert isinstance(part, ClassMoments)
    assert made.samples == part.samples_per_class == dict.fromkeys(NAMES, 40)
    labels, h = np.array(samples.labels), samples.features.astype(np.int64)
    for row, name in enumerate(NAMES):
        assert np.array_equal(part.sums[row], h[labels == name].sum(axis=0))
        assert np.array_equal(part.squares[row], (h[labels == name] ** 2).sum(axis=0))


def test_a_payload_has_a_byte_for_a_feature_or_two_packed_sums_for_a_class():
    random = np.random.default_rng(3)
    h = random.integers(-127, 128, (300, 640)).astype(np.float32)
    labels = [NAMES[i % 2] for i in range(300)]
    whole = len(DEVICE.finish(COORDINATOR.assign({}, 640), h, labels).payload)
    told = COORDINATOR.assign({"publish": "moments"}, 640)
    assert 300 * 640 <= whole < 300 * 640 + 1000
    assert len(DEVICE.finish(told, h, labels).payload) < 2 * 640 * (16 + 23) / 8 + 1000


def test_samples_that_are_none_are_refused_on_the_device():
    samples = make_samples(4)
    with pytest.raises(MethodError, match=r"features: nan in row 0"):
        DEVICE.finish(FEATURES, samples.features * np.nan, samples.labels)
    with pytest.raises(MethodError, match=r"features: inf in row 0"):
        DEVICE.finish(FEATURES, np.full_like(samples.features, np.inf), samples.labels)
    with pytest.raises(MethodError, match=r"features: 0\.5"):
        DEVICE.finish(FEATURES, samples.features * 0 + 0.5, samples.labels)
    with pytest.raises(MethodError, match="features: shape"):
        DEVICE.finish(FEATURES, samples.features[:, 1:], samples.labels)
    with pytest.raises(MethodError, match="labels: 159"):
        DEVICE.finish(FEATURES, samples.features, samples.labels[1:])
    told = FEATURES.model_copy(update={"class_names": NAMES[1:]})
    with pytest.raises(MethodError, match="'cat' was not assigned"):
        DEVICE.finish(told, samples.features, samples.labels)
    with pytest.raises(MethodError, match="form: 'moments'"):
        DEVICE.finish(FEATURES, samples.features, samples.labels, PartContext(form="moments"))
    with pytest.raises(MethodError, match="give 1 to 9 per part"):
        DEVICE.finish(
            COORDINATOR.assign({"max_samples_per_part": 9}, WIDTH), samples.features, samples.labels
        )


def test_moments_of_a_few_samples_wait_and_their_features_do_not():
    h = make_samples(5).features[:7]
    labels = [NAMES[0]] * 4 + [NAMES[1]] * 3
    with pytest.raises(MethodError, match=r"3 of class 'dog'.* hold them back until there are 4"):
        DEVICE.finish(MOMENTS, h, labels)
    assert DEVICE.finish(FEATURES, h, labels).samples == {"cat": 4, "dog": 3}


@pytest.mark.parametrize(
    ("part", "told"),
    [
        (features([[-128] + [0] * 11]), "features: -128; give integers from -127"),
        (features([[2] * 12, [1] * 12]), "class 'cat' are not sorted"),
        (features([[1] * 12], [2]), "features: 1 row for counts of 2"),
        (features([[1] * 11]), r"features: int8 \(1, 11\) does not fit"),
        (features([[1] * 12], [0]), "counts: 0 to 0 samples"),
        (features([[1] * 12] * 2, [1, 1]), "class_names: 1 name for 2 counts"),
        (moments(2, [1] * 12, [1] * 12), "unknown tensor; give only counts, features"),
    ],
)
def test_features_that_no_samples_have_are_refused(part, told: str):
    with pytest.raises(ContributionError, match=told):
        COORDINATOR.check(FEATURES, encode_published(part))


@pytest.mark.parametrize(
    ("part", "told"),
    [
        (moments(4, [509] + [0] * 11, [4] * 12), "sums: 509 for feature 0 of class 'cat'; 4"),
        (moments(4, [4] * 12, [64_518] + [4] * 11), "squares: 64518 for feature 0 .* 4 samples"),
        (moments(4, [8] * 12, [14] + [16] * 11), "squares: 14 .* sum of 8 cannot have it"),
        (moments(8, [4] * 12, [2] + [4] * 11), "squares: 2 .* sum of 4 cannot have it"),
        (moments(4, [3] * 12, [6] + [5] * 11), "squares: 6 .* sum of 3 cannot have it"),
        (moments(3, [3] * 12, [3] * 12), "counts: 3 to 3 samples per class; give at least 4"),
        (moments(4, [3] * 11, [5] * 11), r"sums: packed \(1, 11\) does not fit"),
    ],
)
def test_moments_that_no_samples_have_are_refused(part: ClassMoments, told: str):
    with pytest.raises(ContributionError, match=told):
        COORDINATOR.check(MOMENTS, encode_published(part))


def test_moments_at_the_edge_of_what_samples_have_are_accepted():
    COORDINATOR.check(MOMENTS, encode_published(moments(4, [-508] * 12, [4 * 127**2] * 12)))
    COORDINATOR.check(MOMENTS, encode_published(moments(4, [0] * 12, [0] * 12)))


def test_numbers_of_another_kind_and_torn_payloads_are_refused():
    payload = payload_of(FEATURES, make_samples(6))
    floats = {"counts": np.array([1]), "features": np.full((1, WIDTH), np.nan, np.float32)}
    with pytest.raises(SchemaError, match="features: holds nan"):
        encode_tensors(floats)
    floats["features"] = np.zeros((1, WIDTH), np.float32)
    metadata = {"class_names": ["cat"]}
    for wrong in (payload[:-1], payload + b"x", b"", encode_tensors(floats, metadata)):
        with pytest.raises(ContributionError):
            COORDINATOR.check(FEATURES, wrong)
    with pytest.raises(ContributionError, match="was not assigned; name the class first"):
        COORDINATOR.check(FEATURES.model_copy(update={"class_names": NAMES[:3]}), payload)
    many = ClassFeatures(NAMES[:2], np.array([10, 15]), np.ones((20, WIDTH), np.int8))
    with pytest.raises(ContributionError, match="at most 20 together"):
        COORDINATOR.check(
            COORDINATOR.assign({"max_samples_per_part": 20}, WIDTH), encode_published(many)
        )


def test_settings_that_do_not_fit_are_refused_by_name():
    with pytest.raises(MethodError, match="publish: 'images'"):
        COORDINATOR.assign({"publish": "images"}, WIDTH)
    with pytest.raises(MethodError, match="moments_minimum: 2"):
        COORDINATOR.assign({"moments_minimum": 2}, WIDTH)
    with pytest.raises(MethodError, match=r"max_samples_per_part: 1000000 .* or less"):
        COORDINATOR.assign({"max_samples_per_part": 1_000_000}, 2048)
    assert COORDINATOR.assign({"max_samples_per_part": 1_000_000, "publish": "moments"}, 2048)
