"""The ridge that is chosen from sums, against the samples that the sums are of."""

import numpy as np
import pytest

from fleetledger.learning.errors import FeatureError
from fleetledger.learning.numerics.ridge_choice import RIDGES, choose_ridge, rate_ridges

COUNTS = np.array([40, 25, 0, 35])


def samples(noise: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Return features (100, 30) and classes (100,), each class around a place of its own."""
    rng = np.random.default_rng(4)
    classes = np.repeat(np.arange(4), COUNTS)
    places = rng.normal(size=(4, 30))
    return places[classes] + noise * rng.normal(size=(100, 30)), classes


def sums(h: np.ndarray, classes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return h.T @ h, h.T @ np.eye(4)[classes]


def separation(h: np.ndarray, classes: np.ndarray, ridge: float) -> float:
    """Return T from the samples one by one, as its definition tells."""
    held = np.flatnonzero(COUNTS)
    y = np.eye(4)[classes][:, held]
    hat = h @ np.linalg.inv(h.T @ h + ridge * np.eye(30)) @ h.T
    leverage = np.trace(hat) / len(h)
    z = (hat @ y - leverage * y) / (1 - leverage)
    means = np.array([z[classes == label].mean(axis=0) for label in held])
    rest = z - means[y.argmax(axis=1)]
    within = rest.T @ rest / len(h)
    total = 0.0
    for place, label in enumerate(held):
        margins = []
        for other in range(3):
            if other != place:
                apart = np.eye(3)[place] - np.eye(3)[other]
                margins.append(means[place] @ apart / np.sqrt(apart @ within @ apart))
        total += COUNTS[label] / 100 * min(margins)
    return total


@pytest.mark.parametrize("ridge", [0.01, 1.0, 300.0])
def test_sums_tell_what_the_samples_one_by_one_tell(ridge: float) -> None:
    h, classes = samples()
    (rated,) = rate_ridges(*sums(h, classes), COUNTS, [ridge])
    assert rated.separation == pytest.approx(separation(h, classes, ridge), rel=1e-9)


def test_the_smallest_of_nearly_the_best_is_taken() -> None:
    h, classes = samples()
    rated = rate_ridges(*sums(h, classes), COUNTS, RIDGES)
    best = max(one.separation for one in rated)
    chosen = choose_ridge(*sums(h, classes), COUNTS, RIDGES)
    for one in rated:
        assert one.ridge >= chosen or one.separation < 0.99 * best
    assert next(one for one in rated if one.ridge == chosen).separation >= 0.99 * best


def test_more_noise_asks_for_more_ridge() -> None:
    chosen = [choose_ridge(*sums(*samples(noise)), COUNTS, RIDGES) for noise in (0.3, 3.0)]
    assert chosen[0] is not None
    assert chosen[1] is not None
    assert chosen[0] < chosen[1]


def test_the_order_of_classes_changes_nothing() -> None:
    gram, correlation = sums(*samples())
    turned = choose_ridge(gram, correlation[:, ::-1], COUNTS[::-1], RIDGES)
    assert turned == choose_ridge(gram, correlation, COUNTS, RIDGES)


def test_a_single_class_and_too_few_samples_tell_nothing() -> None:
    h, classes = samples()
    gram, correlation = sums(h[:40], classes[:40])
    assert choose_ridge(gram, correlation, np.array([40, 0, 0, 0]), RIDGES) is None
    few = np.array([0, 1, 41])  # of two samples with independent features nothing is left out
    gram, correlation = sums(h[few[:2]] / 1e-3, np.array([0, 1]))
    assert choose_ridge(gram, correlation, np.array([1, 1, 0, 0]), [1e-9]) is None


def test_sums_that_do_not_fit_together_are_refused() -> None:
    gram, correlation = sums(*samples())
    with pytest.raises(FeatureError, match=r"correlation \(29, 4\), counts \(4,\)"):
        rate_ridges(gram, correlation[1:], COUNTS, RIDGES)
