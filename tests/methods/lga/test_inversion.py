"""Pictures come back from their gradients: what the proxy relies on, and what an attacker gets."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from learning.training.lbfgs import LbfgsSettings  # noqa: E402
from methods.lga.encoding import Encoding  # noqa: E402
from methods.lga.inversion import InversionSettings, invert, peak_signal_to_noise  # noqa: E402


def picture(channels, side, seed):
    """Return a smooth picture with an edge, values between 0 and 1."""
    generator = np.random.default_rng(seed)
    rows, columns = np.mgrid[0:side, 0:side] / side
    waves = [
        0.5 + 0.4 * np.sin(6 * rows * generator.random() + 6 * columns * generator.random() + shift)
        for shift in generator.uniform(0, 6, channels)
    ]
    made = np.stack(waves)
    made[:, side // 4 : side // 2, side // 4 : side // 2] = generator.random((channels, 1, 1))
    return torch.from_numpy(made.astype(np.float32))


def sent(encoding, pictures, labels):
    made = encoding.gradients(torch.stack(pictures), torch.tensor(labels))
    return [{name: t[row] for name, t in made.items()} for row in range(len(labels))]


def test_a_picture_of_32_pixels_comes_back_with_30_decibels():
    encoding, truth = Encoding(3, 32, 20, seed=1), picture(3, 32, 4)
    found = invert(encoding, sent(encoding, [truth], [3]), [3], InversionSettings(), seed=1)
    assert peak_signal_to_noise(found.pictures[0], truth) > 30
    assert found.distances[0] < 1e-3


def test_pictures_of_a_pool_are_found_together_each_for_itself():
    encoding = Encoding(1, 8, 10, seed=2)
    truths, labels = [picture(1, 8, seed) for seed in range(4)], [7, 0, 7, 2]
    settings = InversionSettings(LbfgsSettings(steps=60), kept=5)
    gradients = sent(encoding, truths, labels)
    together = invert(encoding, gradients, labels, settings, seed=1)
    assert together.iterates.shape == (5, 4, 1, 8, 8)
    torch.testing.assert_close(together.iterates[-1], together.pictures)
    for row, truth in enumerate(truths):
        assert peak_signal_to_noise(together.pictures[row], truth) > 30
    first = invert(encoding, gradients[:1], labels[:1], settings, seed=1)
    assert peak_signal_to_noise(first.pictures[0], together.pictures[0]) > 30


def test_a_wrong_label_finds_nothing():
    encoding, truth = Encoding(1, 8, 10, seed=2), picture(1, 8, 0)
    settings = InversionSettings(LbfgsSettings(steps=20), kept=1)
    found = invert(encoding, sent(encoding, [truth], [3]), [4], settings, seed=1)
    assert found.distances[0] > 0.1


def test_decibels_are_those_of_the_mean_square():
    assert peak_signal_to_noise(torch.full((4, 4), 0.6), torch.full((4, 4), 0.5)) == (
        pytest.approx(20, abs=1e-4)
    )
