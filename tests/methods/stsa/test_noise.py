"""Noise: what it is added to, that it is repeated from the secret alone, and what is accepted."""

from typing import Any

import numpy as np
import pytest

from fleetledger.learning.numerics.triangles import diagonal_index, symmetric
from fleetledger.methods.errors import ContributionError, MethodError
from fleetledger.methods.statistics.part import PartContext
from fleetledger.methods.statistics.private_moments import largest_noise
from fleetledger.methods.stsa.coordinator import COORDINATOR
from fleetledger.methods.stsa.device import DEVICE, compute_statistics
from fleetledger.methods.stsa.messages import LocalStatistics, StsaAssignment
from fleetledger.methods.stsa.noise import NoiseSizes
from tests.methods.stsa.fleet import SMALL, Samples, assignment, make_samples

LARGE = {"noise_deviation": 0.5, "noise_strength": 2.0}
FORMS: list[dict[str, Any]] = [
    {**SMALL, "form": "exact"},
    {**SMALL, "form": "estimated", "groups": 5},
    {"map": "gaussian", "map_width": 40, "form": "exact", "ridge": 1.0},
    {"map": "gaussian", "map_width": 40, "form": "estimated", "ridge": 1.0},
]


def numbers(
    told: StsaAssignment, samples: Samples, secret: bytes = b"secret"
) -> tuple[LocalStatistics, np.ndarray, np.ndarray, np.ndarray]:
    """Statistics, and what of them is sums, counts and Gram triangle."""
    context = PartContext(secret=secret)
    made = compute_statistics(told, samples.features, samples.labels, context)
    if made.form == "estimated":
        return made, made.gram.sums.to_float(), made.gram.counts, np.zeros(1)
    return made, made.correlation.to_float(), made.counts, made.gram.to_float()


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("noise", ["sums", "counts", "both"])
def test_noise_is_added_to_what_is_named_and_to_nothing_else(form, noise):
    samples = make_samples(assignment(form), 300)
    _, sums, counts, gram = numbers(assignment(form), samples)
    told = assignment({**form, "noise": noise, **LARGE})
    _, noisy_sums, noisy_counts, noisy_gram = numbers(told, samples)
    assert np.array_equal(sums, noisy_sums) == (noise == "counts")
    assert np.array_equal(counts, noisy_counts) == (noise == "sums")
    if told.settings.form == "exact":
        assert np.array_equal(gram, noisy_gram) == (noise == "counts")


@pytest.mark.parametrize("form", FORMS)
def test_noise_has_the_deviation_that_was_set(form):
    told = assignment({**form, "noise": "sums", **LARGE})
    unit = 1 if told.settings.map == "gaussian" else 127
    samples = make_samples(told, 300, classes=30)
    _, sums, _, gram = numbers(assignment(form), samples)
    _, noisy_sums, _, noisy_gram = numbers(told, samples)
    assert (noisy_sums - sums).std() == pytest.approx(unit, rel=0.08)
    assert abs((noisy_sums - sums).mean()) < 0.1 * unit
    if told.settings.form == "exact":
        added = symmetric(noisy_gram - gram, 40)
        assert np.diagonal(added).std() == pytest.approx(unit**2, rel=0.3)
        off = np.delete(noisy_gram - gram, diagonal_index(40))
        assert off.std() == pytest.approx(unit**2 / np.sqrt(2), rel=0.1)


@pytest.mark.parametrize("form", FORMS)
def test_noise_is_a_function_of_the_secret(form):
    told = assignment({**form, "noise": "both", **LARGE})
    samples = make_samples(told, 60)

    def payload(secret: bytes) -> bytes:
        context = PartContext(secret=secret)
        return DEVICE.finish(told, samples.features, samples.labels, context).payload

    assert payload(b"one") == payload(b"one")
    assert payload(b"one") != payload(b"two")
    with pytest.raises(MethodError, match="secret: noise needs one"):
        payload(b"")


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("noise", ["sums", "counts", "both"])
def test_noisy_statistics_pass_the_coordinator_s_checks(form, noise):
    for seed in range(5):
        told = assignment({**form, "noise": noise, "noise_deviation": 3.0, "hold_back": False})
        samples = make_samples(told, 12, seed=seed)
        samples.features[:, :20] = 0
        context = PartContext(secret=b"%d" % seed)
        made = DEVICE.finish(told, samples.features, samples.labels, context)
        assert COORDINATOR.check(told, made.payload).samples_per_class == made.samples


@pytest.mark.parametrize("form", FORMS[:2])
def test_more_than_noise_can_do_is_still_refused(form):
    told = assignment({**form, "noise": "sums"})
    samples = make_samples(told, 40)
    samples.features[:] = 127
    given = assignment({**form, "feature_bits": 8})
    samples.features[:] = 255
    payload = DEVICE.finish(given, samples.features, samples.labels).payload
    with pytest.raises(ContributionError, match=r"correlation: .* samples give"):
        COORDINATOR.check(told, payload)


def test_noisy_counts_stay_within_what_a_part_may_hold():
    told = assignment(
        {
            **SMALL,
            "form": "estimated",
            "groups": 10,
            "noise": "counts",
            "noise_deviation": 100.0,
            "max_samples_per_part": 60,
        }
    )
    for seed in range(20):
        samples = make_samples(told, 60, seed=seed)
        _, _, counts, _ = numbers(told, samples, b"%d" % seed)
        assert counts.min() >= 2
        assert counts.sum() <= 60


def test_the_values_of_the_literature_leave_counts_as_they_are():
    settings = assignment({**SMALL, "form": "estimated", "noise": "both"}).settings
    assert settings.noise_size == pytest.approx(0.01)
    assert NoiseSizes.of(settings) == NoiseSizes(
        pytest.approx(1.27), pytest.approx(161.29), pytest.approx(0.01)
    )
    assert largest_noise(0.0) == 0
    assert largest_noise(1.27) == 14
