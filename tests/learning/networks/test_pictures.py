"""Pictures become inputs: cut and mirrored as their words say, then normalised."""

import numpy as np
import pytest
import torch

from learning.networks.pictures import Pictures

pytestmark = pytest.mark.torch

PICTURES = Pictures((0.5, 0.25), (0.5, 2.0), pad=4, flip=True)
RAW = np.random.default_rng(0).integers(0, 256, (5, 2, 6, 7), dtype=np.uint8)


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
    cut = PICTURES.augment(torch.from_numpy(stack), torch.from_numpy(words)).numpy()
    for agent, row in np.ndindex(3, 5):
        wanted = slow_augment(stack[agent, row], int(words[agent, row]))
        assert np.array_equal(cut[agent, row], wanted)


def test_every_window_and_mirror_occurs():
    words = torch.from_numpy(np.random.default_rng(1).integers(-(2**63), 2**63, 4000))
    marked = torch.zeros(4000, 1, 9, 9, dtype=torch.uint8)
    marked[:, :, 4, 4] = 255
    cut = Pictures((0.0,), (1.0,), pad=4).augment(marked, words)
    assert {tuple(place[2:].tolist()) for place in cut.nonzero()} == set(np.ndindex(9, 9))


def test_without_chance_pictures_stay_whole():
    raw = torch.from_numpy(RAW)
    still = Pictures((0.5, 0.25), (0.5, 2.0))
    assert torch.equal(still.augment(raw, torch.zeros(5, dtype=torch.int64)), raw)
