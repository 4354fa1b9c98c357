"""Pictures become inputs: cut and mirrored as their words say, then normalised."""

import numpy as np
import pytest
import torch
from PIL import Image, ImageEnhance

from fleetledger.learning.networks.pictures import Pictures, PictureSource

pytestmark = pytest.mark.torch

PICTURES = Pictures((0.5, 0.25), (0.5, 2.0), pad=4, flip=True)
RAW = np.random.default_rng(0).integers(0, 256, (5, 2, 6, 7), dtype=np.uint8)


def augmented(pictures, raw, words):
    """Return `raw` (..., c, h, w) cropped, flipped, lit; `words` (...) are chance."""
    source = PictureSource.of(pictures, raw.reshape(-1, *raw.shape[-3:]))
    return source.shaken(torch.arange(words.numel()).reshape(words.shape), pictures.windows(words))


def slow_augment(picture, word):
    padded = np.pad(picture, ((0, 0), (4, 4), (4, 4)))
    top, left = (word & 0xFFFF) * 9 >> 16, (word >> 16 & 0xFFFF) * 9 >> 16
    window = padded[:, top : top + 6, left : left + 7]
    return window[:, :, ::-1] if word >> 32 & 1 else window


def test_pictures_are_normalised_by_channel():
    wanted = (RAW / 255 - [[[0.5]], [[0.25]]]) / [[[0.5]], [[2.0]]]
    inputs = PICTURES.normalise(torch.from_numpy(RAW))
    assert inputs.dtype == torch.float32
    assert np.allclose(inputs.numpy(), wanted, atol=1e-6)


def test_windows_and_mirrors_are_those_of_the_words():
    words = np.random.default_rng(1).integers(-(2**63), 2**63, (3, 5))
    stack = np.stack([RAW, RAW[::-1], RAW])
    cut = augmented(PICTURES, torch.from_numpy(stack), torch.from_numpy(words)).numpy()
    for agent, row in np.ndindex(3, 5):
        wanted = slow_augment(stack[agent, row], int(words[agent, row]))
        assert np.array_equal(cut[agent, row], wanted)


def test_every_window_and_mirror_occurs():
    words = torch.from_numpy(np.random.default_rng(1).integers(-(2**63), 2**63, 4000))
    marked = torch.zeros(4000, 1, 9, 9, dtype=torch.uint8)
    marked[:, :, 4, 4] = 255
    cut = augmented(Pictures((0.0,), (1.0,), pad=4), marked, words)
    assert {tuple(place[2:].tolist()) for place in cut.nonzero()} == set(np.ndindex(9, 9))


def test_pictures_are_as_light_as_pillow_makes_them():
    """torchvision's ColorJitter brightens 8-bit pictures by Pillow's own enhancer."""
    share = 63 / 255
    words = np.random.default_rng(2).integers(-(2**63), 2**63, 40)
    raw = np.random.default_rng(3).integers(0, 256, (40, 3, 6, 7), dtype=np.uint8)
    stacked, drawn = (torch.from_numpy(array).unflatten(0, (8, 5)) for array in (raw, words))
    lit = augmented(Pictures((0.5,), (0.5,), brightness=share), stacked, drawn)
    lit = lit.flatten(0, 1)
    for row, word in enumerate(words):
        factor = 1 + share * ((int(word) >> 33 & 0xFFFFFF) * 2 / 0xFFFFFF - 1)
        picture = Image.fromarray(raw[row].transpose(1, 2, 0))
        wanted = np.asarray(ImageEnhance.Brightness(picture).enhance(factor)).transpose(2, 0, 1)
        assert np.abs(lit[row].numpy().astype(int) - wanted).max() <= 1  # Pillow rounds in float64
        assert (lit[row].numpy() == wanted).mean() > 0.98


def test_light_is_uniform_between_its_bounds_and_leaves_crop_and_mirror_as_they_are():
    words = torch.from_numpy(np.random.default_rng(1).integers(-(2**63), 2**63, 4000))
    lit = Pictures((0.0,), (1.0,), pad=4, flip=True, brightness=0.25).windows(words)
    still = Pictures((0.0,), (1.0,), pad=4, flip=True).windows(words)
    assert lit.light is not None
    assert 0.75 <= float(lit.light.min()) < 0.76
    assert 1.24 < float(lit.light.max()) <= 1.25
    assert abs(float(lit.light.mean()) - 1) < 0.01
    assert torch.equal(lit.top, still.top)
    assert torch.equal(lit.mirrored, still.mirrored)


def test_without_chance_pictures_stay_whole():
    raw = torch.from_numpy(RAW)
    still = Pictures((0.5, 0.25), (0.5, 2.0))
    assert torch.equal(augmented(still, raw, torch.zeros(5, dtype=torch.int64)), raw)
