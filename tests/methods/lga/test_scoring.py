"""Noise around features, omega's recursion, and the share of right answers."""

import numpy as np
import pytest

from fleetledger.learning.numerics.noise import normal_noise
from fleetledger.methods.lga.scoring import (
    TRIES,
    AugmentationSettings,
    augmented,
    bounded_noise,
    deviations_of,
    next_omega,
    released_radius,
    share_right,
)

generator = np.random.default_rng(1)
FEATURES = generator.normal(size=(6, 40))
VARIANCES = generator.uniform(0.5, 2.0, size=40)


def test_omega_is_the_mean_over_all_classes_so_far() -> None:
    traces = [[0.4, 0.2], [0.6], [0.9, 0.1, 0.5]]
    omega, old, seen = 0.0, 0, []
    for new in traces:
        omega = next_omega(omega, old, new)
        old, seen = old + len(new), [*seen, *new]
        assert omega == pytest.approx(np.mean(seen))
    assert next_omega(omega, old, []) == omega


@pytest.mark.parametrize("square_root", [True, False])
@pytest.mark.parametrize("omega", [1e-3, 0.05, 3.0])
def test_no_noise_is_longer_than_it_may_be(square_root: bool, omega: float) -> None:
    settings = AugmentationSettings(draws=5, xi=0.1, square_root=square_root)
    drawn = augmented(FEATURES, VARIANCES, omega, settings, b"seed")
    assert drawn.shape == (30, 40)
    noise = drawn - np.repeat(FEATURES, 5, axis=0)
    lengths = np.square(noise).sum(axis=1)
    assert (lengths > 0).all()
    assert (lengths <= 0.1 * VARIANCES.sum() * (1 + 1e-9)).all()


def test_small_noise_is_drawn_and_not_cut() -> None:
    """Its variance is the share xi of omega, or omega squared times that of the class."""
    many = np.zeros((400, 40))
    for square_root, expected in ((True, np.full(40, 1e-4)), (False, 1e-6 * VARIANCES)):
        settings = AugmentationSettings(draws=5, square_root=square_root)
        drawn = augmented(many, VARIANCES, 1e-3, settings, b"seed")
        np.testing.assert_allclose(drawn.var(axis=0), expected, rtol=0.2)


def lengths(omega: float, variances: np.ndarray) -> np.ndarray:
    drawn = augmented(np.zeros((200, 40)), variances, omega, AugmentationSettings(), b"seed")
    return np.square(drawn).sum(axis=1)


def test_omega_decides_how_long_noise_is_unless_a_class_is_tighter_than_the_mean() -> None:
    """And the class's own bound, where it is tighter: the length is xi d min(omega, spread)."""
    spread = np.full(40, 2.0)
    means = {omega: lengths(omega, spread).mean() for omega in (0.5, 1.0, 2.0, 8.0)}
    for omega in (0.5, 1.0):
        assert means[omega] == pytest.approx(0.1 * 40 * omega, rel=0.1)
    assert 0.1 * 40 * 1.2 < means[2.0] < 0.1 * 40 * 2.0
    assert lengths(8.0, spread) == pytest.approx(0.1 * 40 * 2.0)


def test_noise_is_drawn_again_until_it_is_short_enough_or_cut() -> None:
    """Draw by draw: the first of ten that is short enough, else the tenth at full length."""
    settings, variances = AugmentationSettings(), np.full(40, 1.0)
    for omega, share in ((0.7, (0.99, 1.0)), (1.2, (0.3, 1.0)), (3.0, (0.0, 0.0))):
        deviations = deviations_of(variances, omega, settings)
        noise, kept = bounded_noise(deviations, 4.0, 50, b"seed")
        assert share[0] <= kept.mean() <= share[1]
        for row in range(50):
            draws = [
                deviations * normal_noise(b"seed/%d" % n, 50 * 40).reshape(50, 40)[row]
                for n in range(TRIES)
            ]
            short = [draw for draw in draws if (draw**2).sum() <= 4.0]
            assert bool(kept[row]) == bool(short)
            wanted = short[0] if short else draws[-1] * np.sqrt(4.0 / (draws[-1] ** 2).sum())
            np.testing.assert_allclose(noise[row], wanted)


def test_noise_of_the_released_program_is_that_of_its_loop() -> None:
    """Deviations are radius v^2 of the variances v; again while ||noise||^2 > 0.1 sum v^2."""
    settings = AugmentationSettings(draws=2, released=True)
    radius, noise = 0.3, np.empty((12, 40))
    v = VARIANCES * VARIANCES
    for row in range(12):
        for attempt in range(TRIES):
            standard = normal_noise(b"seed/%d" % attempt, 12 * 40).reshape(12, 40)[row]
            noise[row] = radius * v * standard
            if sum(value * value for value in noise[row]) <= 0.1 * sum(v):
                break
        else:
            noise[row] *= np.sqrt(0.1 * sum(v) / sum(noise[row] ** 2))
    drawn = augmented(FEATURES, VARIANCES, radius, settings, b"seed")
    np.testing.assert_allclose(drawn - np.repeat(FEATURES, 2, axis=0), noise, rtol=1e-9)


def test_the_released_radius_is_fixed_by_the_first_task() -> None:
    assert released_radius(0, 0.0) == 0.15
    assert released_radius(4, 0.09) == pytest.approx(0.3)


def test_draws_are_told_by_their_seed() -> None:
    settings = AugmentationSettings()
    one, again, other = (
        augmented(FEATURES, VARIANCES, 0.01, settings, seed) for seed in (b"a", b"a", b"b")
    )
    np.testing.assert_array_equal(one, again)
    assert not np.array_equal(one, other)


def test_without_draws_the_features_are_scored_as_they_are() -> None:
    settings = AugmentationSettings(draws=0)
    np.testing.assert_array_equal(augmented(FEATURES, VARIANCES, 9.0, settings, b""), FEATURES)


def test_a_class_without_variance_gets_no_noise() -> None:
    settings = AugmentationSettings(draws=2)
    drawn = augmented(FEATURES, np.zeros(40), 1.0, settings, b"seed")
    np.testing.assert_array_equal(drawn, np.repeat(FEATURES, 2, axis=0))


def test_the_share_of_right_answers() -> None:
    logits = np.array([[0.1, 0.9], [0.8, 0.2], [0.3, 0.7], [0.6, 0.4]])
    assert share_right(logits, [1, 0, 0, 0]) == 0.75
    assert share_right(np.empty((0, 2)), []) == 0.0
