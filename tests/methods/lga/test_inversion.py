"""Pictures come back from their gradients: what the proxy relies on, and what an attacker gets.

Those of 32 pixels take ten seconds each, and one is from CIFAR-100's pack:

    FLEETLEDGER_PACKS=PACKS pytest -m slow tests/methods/lga/test_inversion.py
"""

import os
from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks.papers.packs.to_npz import decode
from fleetledger.learning.training.lbfgs import LbfgsSettings
from fleetledger.methods.lga.encoding import Encoding
from fleetledger.methods.lga.inversion import InversionSettings, invert, peak_signal_to_noise

pytestmark = pytest.mark.torch

CIFAR = "cifar100/cifar100_core.npz"


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


def natural_picture():
    folder = os.environ.get("FLEETLEDGER_PACKS")
    if folder is None or not (path := Path(folder, CIFAR)).is_file():
        pytest.skip(f"FLEETLEDGER_PACKS names no folder with {CIFAR}")
    with np.load(path, allow_pickle=False) as pack:
        image = decode(pack["train_x_delta"][1:2])[0]
    return torch.from_numpy(image.transpose(2, 0, 1).astype(np.float32) / 255)


def quality(encoding, truths, labels, settings, seed=1):
    """Return the decibels of each picture, and what was found."""
    found = invert(encoding, sent(encoding, truths, labels), labels, settings, seed)
    pairs = zip(found.pictures, truths, strict=True)
    return [peak_signal_to_noise(one, truth) for one, truth in pairs], found


@pytest.mark.nightly
@pytest.mark.parametrize("made", [True, False], ids=["made", "natural"])
def test_a_picture_of_32_pixels_comes_back_with_30_decibels(made):
    truth = picture(3, 32, 4) if made else natural_picture()
    decibels, found = quality(Encoding(3, 32, 20, seed=1), [truth], [3], InversionSettings())
    assert decibels[0] > 30
    assert found.distances[0] < 1e-4


def test_a_picture_of_16_pixels_comes_back_with_40_decibels():
    decibels, found = quality(
        Encoding(3, 16, 20, seed=1), [picture(3, 16, 4)], [3], InversionSettings()
    )
    assert decibels[0] > 40
    assert found.distances[0] <= 1e-6


def test_pictures_of_a_pool_are_found_together_each_for_itself():
    encoding = Encoding(1, 8, 10, seed=2)
    truths, labels = [picture(1, 8, seed) for seed in range(8)], [7, 0, 7, 2, 1, 3, 9, 5]
    settings = InversionSettings(kept=5)
    decibels, together = quality(encoding, truths, labels, settings)
    assert min(decibels) > 50
    assert together.iterates.shape == (5, 8, 1, 8, 8)
    torch.testing.assert_close(together.iterates[-1], together.pictures)
    _, alone = quality(encoding, truths[:1], labels[:1], settings)
    assert peak_signal_to_noise(alone.pictures[0], together.pictures[0]) > 50


def test_from_the_papers_noise_pictures_are_found_too():
    encoding, settings = Encoding(1, 8, 10, seed=2), InversionSettings(start="noise")
    decibels, _ = quality(encoding, [picture(1, 8, 0)], [7], settings)
    assert decibels[0] > 50


def test_a_large_pool_is_searched_in_parts(monkeypatch):
    monkeypatch.setattr("fleetledger.methods.lga.inversion._TOGETHER", 2)
    encoding = Encoding(1, 8, 10, seed=2)
    truths, labels = [picture(1, 8, seed) for seed in range(3)], [7, 0, 7]
    decibels, found = quality(encoding, truths, labels, InversionSettings(kept=100))
    assert min(decibels) > 50
    assert found.iterates.shape == (100, 3, 1, 8, 8)


def test_a_wrong_label_finds_nothing():
    encoding, truth = Encoding(1, 8, 10, seed=2), picture(1, 8, 0)
    settings = InversionSettings(LbfgsSettings(steps=5, safeguard=True), kept=1)
    found = invert(encoding, sent(encoding, [truth], [3]), [4], settings, seed=1)
    assert found.distances[0] > 0.1


def test_decibels_are_those_of_the_mean_square():
    assert peak_signal_to_noise(torch.full((4, 4), 0.6), torch.full((4, 4), 0.5)) == (
        pytest.approx(20, abs=1e-4)
    )
