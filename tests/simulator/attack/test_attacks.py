"""Attacks on digits: what each form gives away, and what does not."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from fleetledger.simulator.attack.attacks import run_attacks
from fleetledger.simulator.attack.payloads import rows_of
from fleetledger.simulator.attack.search import likeness
from fleetledger.simulator.attack.table import AttackLine, SubjectSettings
from fleetledger.simulator.errors import SimulatorError

pytestmark = pytest.mark.torch

DIGITS = SubjectSettings()


def line(name: str, images: int, out: Path | None = None) -> AttackLine:
    (found,) = run_attacks((name,), DIGITS, (images,), 1, out).attacks
    return found


def test_rows_come_out_of_a_gram_matrix_though_it_leaves_a_rotation_open():
    """Law: of H without negative numbers, half of them zero, G = H^T H gives the rows of H."""
    rng = np.random.default_rng(1)
    H = np.maximum(rng.normal(size=(12, 400)), 0)
    turned = np.linalg.qr(rng.normal(size=(12, 12)))[0] @ H
    found = rows_of(turned)
    assert np.allclose(found.T @ found, H.T @ H)
    lengths = np.linalg.norm(found, axis=1)[:, None] * np.linalg.norm(H, axis=1)[None]
    assert ((found @ H.T) / lengths).max(axis=0).min() > 0.999


def test_a_gram_matrix_shows_every_picture_where_class_sums_show_a_mean(tmp_path):
    compact, sums = line("stsa-compact", 4, tmp_path), line("fedncm", 4)
    assert compact.psnr > 25
    assert compact.psnr > sums.psnr + 8
    assert sums.psnr < 20
    assert Image.open(tmp_path / "stsa-compact-4.png").width == 4 * 160 + 3 * 8


def test_a_revision_shows_the_picture_that_left_unless_companions_go_with_it():
    alone, held = line("revision", 4), line("revision-held", 4)
    assert alone.psnr > 25
    assert held.psnr < alone.psnr - 8


def test_a_gradient_of_one_picture_shows_more_than_a_guess():
    assert line("fedavg", 1).psnr > line("guess", 1).psnr + 5


def test_members_of_a_head_are_told_from_others():
    found = line("membership", 1)
    assert 0.6 < found.auc <= 1
    assert 0.01 < found.found <= 1


def test_the_same_seed_gives_the_same_figures():
    assert replace(line("fedncm", 3), seconds=0) == replace(line("fedncm", 3), seconds=0)


def test_equal_pictures_are_as_alike_as_can_be():
    pictures = torch.rand(3, 1, 8, 8, generator=torch.Generator().manual_seed(1))
    found = likeness(pictures.flip(0), pictures)
    assert (found.psnr, found.ssim, found.gmsd) == pytest.approx((60, 1, 0), abs=1e-5)


@pytest.mark.parametrize(
    ("settings", "images", "words"),
    [
        (replace(DIGITS, data="nowhere.npz"), 1, "nowhere.npz"),
        (replace(DIGITS, network="abacus"), 1, "'abacus' is unknown"),
        (replace(DIGITS, network="mlp", weights=Path("nowhere")), 1, "nowhere: cannot be read"),
        (DIGITS, 1000, "no class of digits has so many"),
    ],
)
def test_what_cannot_be_attacked_is_told(settings, images, words):
    with pytest.raises(SimulatorError, match=words):
        run_attacks(("fedncm",), settings, (images,), 1, None)
