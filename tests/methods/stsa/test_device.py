"""The device half against sums written out, and what it refuses."""

import numpy as np
import pytest

from fleetledger.learning.numerics.triangles import symmetric
from fleetledger.methods.errors import MethodError
from fleetledger.methods.stsa.aggregate import StsaAggregate
from fleetledger.methods.stsa.device import DEVICE
from fleetledger.methods.stsa.messages import decode_statistics
from fleetledger.schemas.values import Digest
from tests.methods.stsa.fleet import EVERY_KIND, GAUSSIAN, SMALL, assignment, make_samples

EXACT = [kind for kind in EVERY_KIND if kind["form"] == "exact" and kind != GAUSSIAN]


@pytest.mark.parametrize("settings", EXACT)
def test_statistics_are_the_sums_of_equation_2(settings):
    told = assignment(settings)
    samples = make_samples(told, 70)
    statistics = decode_statistics(
        DEVICE.finish(told, samples.features, samples.labels).payload, told
    )
    H = samples.features.astype(np.int64)
    assert np.array_equal(symmetric(statistics.gram.values, told.columns), H.T @ H)
    for name, count, row in zip(
        statistics.class_names, statistics.counts, statistics.correlation.values, strict=True
    ):
        members = np.array([label == name for label in samples.labels])
        assert count == members.sum()
        assert np.array_equal(row, H[members].sum(axis=0))


@pytest.mark.parametrize("settings", [k for k in EVERY_KIND if k["form"] != "estimated"])
def test_statistics_are_close_to_float64_whatever_the_form(settings):
    told = assignment(settings)
    samples = make_samples(told, 70)
    payload = DEVICE.finish(told, samples.features, samples.labels).payload
    aggregate = StsaAggregate.of(told, decode_statistics(payload, told), 1)
    H = samples.features.astype(np.float64)
    gram = symmetric(aggregate.gram.to_float(), told.columns)
    tolerance = 0.01 if settings["form"] == "compact" else 1e-9
    assert np.abs(gram - H.T @ H).max() <= tolerance * np.abs(H.T @ H).max()
    for name, total in aggregate.classes.items():
        members = np.array([label == name for label in samples.labels])
        assert np.allclose(total.correlation.to_float(), H[members].sum(axis=0), atol=1e-6)


def test_the_contribution_names_its_digest_and_counts():
    told = assignment()
    samples = make_samples(told, 30)
    made = DEVICE.finish(told, samples.features, samples.labels)
    assert made.digest == Digest.of(made.payload)
    assert made.samples == {
        name: samples.labels.count(name) for name in sorted(set(samples.labels))
    }


def test_integers_may_come_as_float32_or_as_integers():
    told = assignment()
    samples = make_samples(told, 30)
    same = DEVICE.finish(told, samples.features.astype(np.uint8), samples.labels)
    assert same == DEVICE.finish(told, samples.features, samples.labels)


def test_the_order_of_samples_does_not_change_an_exact_payload():
    told = assignment({**SMALL, "form": "exact"})
    samples = make_samples(told, 50)
    shuffled = samples[np.random.default_rng(1).permutation(50)]
    assert DEVICE.finish(told, samples.features, samples.labels) == DEVICE.finish(
        told, shuffled.features, shuffled.labels
    )


def test_two_ways_to_type_a_name_are_one_class():
    told = assignment()
    samples = make_samples(told, 2)
    made = DEVICE.finish(told, samples.features, ["caf\u00e9", "cafe\u0301"])
    assert made.samples == {"caf\u00e9": 2}


def test_a_single_sample_is_enough():
    for settings in EVERY_KIND:
        told = assignment(settings)
        samples = make_samples(told, 1)
        assert sum(DEVICE.finish(told, samples.features, samples.labels).samples.values()) == 1


def refusal(told, features, labels) -> str:
    with pytest.raises(MethodError) as caught:
        DEVICE.finish(told, features, labels)
    return str(caught.value)


def test_wrong_shapes_are_named():
    told = assignment()
    samples = make_samples(told, 4)
    assert "shape (4, 39); give (n, 40)" in refusal(told, samples.features[:, 1:], samples.labels)
    assert "labels: 3 for 4 samples" in refusal(told, samples.features, samples.labels[1:])
    assert "0 samples; give 1 to 1000 per" in refusal(told, samples.features[:0], [])


def test_more_samples_than_a_part_may_have_are_refused():
    told = assignment({**SMALL, "max_samples_per_part": 3})
    samples = make_samples(told, 4)
    assert "4 samples; give 1 to 3 per part" in refusal(told, samples.features, samples.labels)


@pytest.mark.parametrize("bad", [np.nan, np.inf, 0.5, -1.0, 128.0])
def test_values_that_are_no_integer_features_are_refused(bad):
    told = assignment()
    samples = make_samples(told, 4)
    samples.features[2, 7] = bad
    assert "row 2, column 7; give integers" in refusal(told, samples.features, samples.labels)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_nan_behind_the_gaussian_map_is_refused(bad):
    told = assignment(GAUSSIAN)
    samples = make_samples(told, 4)
    samples.features[2, 7] = bad
    assert "NaN or infinite" in refusal(told, samples.features, samples.labels)


def test_gaussian_features_too_large_for_the_coarsest_step_are_refused_not_clipped():
    told = assignment(GAUSSIAN)
    samples = make_samples(told, 4)
    assert "coarsest allowed is 2^-16" in refusal(told, samples.features * 1e6, samples.labels)


def test_labels_that_are_no_class_names_or_not_assigned_are_refused():
    told = assignment()
    samples = make_samples(told, 2)
    assert "'a/b' is not allowed" in refusal(told, samples.features, ["a/b", "a"])
    known = told.model_copy(update={"class_names": ("a",)})
    assert "'b' was not assigned" in refusal(known, samples.features, ["b", "a"])
    assert DEVICE.finish(known, samples.features, ["a", "a"]).samples == {"a": 2}
