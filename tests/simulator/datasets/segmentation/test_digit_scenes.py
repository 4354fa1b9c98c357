"""Scenes of digits: where they lie, what their masks say, and that no scan is in both parts."""

import numpy as np
import pytest
from pydantic import ValidationError

from fleetledger.simulator.datasets.digits import TEST_SHARE, load_digits, split_digits
from fleetledger.simulator.datasets.segmentation.digit_scenes import (
    Layout,
    SceneSettings,
    colour,
    draw_layout,
    draw_scenes,
    enlarge,
    split_digit_scenes,
    write,
)

SMALL = SceneSettings(train=40, test=12)


@pytest.fixture(scope="module")
def split():
    return split_digit_scenes(SMALL, seed=3)


def layout_of(settings: SceneSettings, number: int = 200, seed: int = 0) -> Layout:
    return draw_layout(settings, number, 50, np.random.default_rng(seed))


def test_counts_sizes_and_names_are_as_asked():
    split = split_digit_scenes(SceneSettings(train=7, test=5, height=32, width=56, most=2), seed=0)
    assert split.train.images.shape == (7, 32, 56, 3)
    assert split.test.masks.shape == (5, 32, 56)
    assert split.train.class_names == split.test.class_names == tuple("0123456789")


def test_a_seed_gives_the_same_scenes_and_another_gives_others(split):
    again, other = split_digit_scenes(SMALL, seed=3), split_digit_scenes(SMALL, seed=4)
    assert split.train.fingerprint == again.train.fingerprint != other.train.fingerprint
    assert split.test.fingerprint == again.test.fingerprint
    assert split.test.fingerprint != split.train.fingerprint


def test_the_two_parts_are_drawn_from_scans_that_they_do_not_share(split):
    digits = split_digits(3, TEST_SHARE)
    scans = [{scan.tobytes() for scan in part.images} for part in (digits.train, digits.test)]
    assert not scans[0] & scans[1]
    for part, source, number, stream in (
        (split.train, digits.train, 40, 0),
        (split.test, digits.test, 12, 1),
    ):
        made = draw_scenes(source, SMALL, number, np.random.default_rng([3, stream]))
        assert made.fingerprint == part.fingerprint


def test_a_scene_has_so_many_digits_and_each_is_as_likely():
    settings = SceneSettings(fewest=0, most=4)
    numbers = (layout_of(settings, 2000).digit >= 0).sum(axis=1)
    assert np.abs(np.bincount(numbers) / 2000 - 0.2).max() < 0.04
    assert set((layout_of(SceneSettings(fewest=3, most=3)).digit >= 0).sum(axis=1)) == {3}


def test_digits_lie_inside_and_none_covers_another():
    settings = SceneSettings(height=50, width=76, most=6, fewest=6, scales=(1, 3))
    layout = layout_of(settings)
    assert set(np.unique(layout.scale)) == {1, 3}
    for scene in range(200):
        covered = np.zeros((50, 76), int)
        for place in range(6):
            top, left = layout.top[scene, place], layout.left[scene, place]
            side = 8 * layout.scale[scene, place]
            assert 0 <= top <= 50 - side
            assert 0 <= left <= 76 - side
            covered[top : top + side, left : left + side] += 1
        assert covered.max() == 1


def test_masks_are_what_a_loop_over_pixels_says():
    digits = load_digits()
    settings = SceneSettings(height=40, width=48, most=2, fewest=1, scales=(1, 2))
    layout = draw_layout(settings, 6, len(digits), np.random.default_rng(1))
    ink, masks = write(digits, layout, (40, 48))
    expected = np.zeros((6, 40, 48), int)
    expected_ink = np.zeros((6, 40, 48))
    for scene in range(6):
        for place in range(2):
            scan = layout.digit[scene, place]
            if scan < 0:
                continue
            scale = layout.scale[scene, place]
            glyph = enlarge(digits.images[scan : scan + 1], int(scale))[0]
            for row in range(8 * scale):
                for column in range(8 * scale):
                    at = (scene, layout.top[scene, place] + row, layout.left[scene, place] + column)
                    amount = glyph[row, column]
                    expected_ink[at] = amount
                    value = digits.labels[scan] + 1 if amount >= 0.5 else 255
                    expected[at] = 0 if amount <= 0.25 else value
    assert np.array_equal(masks, expected)
    assert np.array_equal(ink, expected_ink.astype(np.float32))


def test_scale_one_is_the_scan_itself_and_two_is_pillows_bilinear():
    from PIL import Image

    scans = load_digits().images[:5]
    assert np.allclose(enlarge(scans, 1), scans / 255, atol=1e-6)
    for scan, ours in zip(scans, enlarge(scans, 2), strict=True):
        theirs = Image.fromarray(scan / np.float32(255)).resize((16, 16), Image.Resampling.BILINEAR)
        assert np.allclose(ours, np.asarray(theirs), atol=1e-5)


def test_ink_is_far_from_its_canvas():
    ink = np.zeros((60, 16, 16), np.float32)
    ink[:, 4:12, 4:12] = 1
    pictures = colour(ink, np.random.default_rng(0)).astype(float)
    inside = pictures[:, 4:12, 4:12].mean(axis=(1, 2))
    outside = pictures[:, :3].mean(axis=(1, 2))
    assert np.abs(inside - outside).min() > 60
    assert (inside > outside).all(axis=1).any()
    assert (inside < outside).all(axis=1).any()


def test_every_class_is_in_enough_scenes(split):
    assert (split.train.labels > 0).sum(axis=0).min() >= 3
    assert 255 in split.train.masks


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"most": 5}, "5 digits of 24 pixels do not fit into 48 x 48, which has room for 4"),
        ({"fewest": 3, "most": 2}, "fewest: 3 is more than most, 2"),
        ({"scales": (0, 1)}, "scales: 0; give 1 or more"),
        ({"height": 16}, "room for 0"),
    ],
)
def test_what_does_not_fit_is_told(settings: dict, told: str):
    with pytest.raises(ValidationError, match=told):
        SceneSettings(**settings)
