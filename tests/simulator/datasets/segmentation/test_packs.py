"""The packs of pictures with masks, where FLEETLEDGER_PACKS names the folder that holds them."""

from pathlib import Path

import numpy as np
import pytest

from benchmarks.papers.packs.segmentation import new_values, read_pack
from benchmarks.papers.packs.to_npz import encode
from fleetledger.simulator.datasets.npz import (
    load_segmentation_npz,
    save_npz,
)
from tests.simulator.datasets.segmentation.making import random_masks, random_pictures
from tests.simulator.datasets.test_packs import pack

CLASSES = np.array(["sky", "cow", "horse"])


def encoded(number: int, seed: int) -> np.ndarray:
    return encode(random_pictures(number, seed=seed))


def labels(number: int, seed: int) -> np.ndarray:
    """Masks that count classes from 0; 255 has no label."""
    masks = random_masks(number, 2, seed=seed)
    return np.where(masks == 255, 255, masks).astype(np.uint8)


@pytest.fixture(params=["arrays of their own", "split"])
def small_pack(request, tmp_path: Path) -> Path:
    path = tmp_path / "pack.npz"
    parts = [(encoded(n, seed), labels(n, seed)) for seed, n in enumerate((3, 1, 2))]
    if request.param == "split":
        np.savez(
            path,
            x_delta=np.concatenate([x for x, _ in parts]),
            y=np.concatenate([y for _, y in parts]),
            split=np.repeat(np.arange(3, dtype=np.uint8), (3, 1, 2)),
            classes=CLASSES,
        )
    else:
        named = dict(zip(("train", "val", "test"), parts, strict=True))
        arrays = {f"{name}_x_delta": x for name, (x, _) in named.items()}
        arrays |= {f"{name}_y": y for name, (_, y) in named.items()}
        np.savez(path, classes=CLASSES, **arrays)
    return path


def test_a_pack_goes_through_the_npz_layout(small_pack: Path, tmp_path: Path):
    save_npz(tmp_path / "set.npz", read_pack(small_pack))
    split = load_segmentation_npz(tmp_path / "set.npz")
    assert split.train.class_names == ("sky", "cow", "horse")
    for part, number, seed in ((split.train, 3, 0), (split.test, 2, 2)):
        assert np.array_equal(part.images, random_pictures(number, seed=seed))
        given = labels(number, seed)
        assert np.array_equal(part.masks, np.where(given == 255, 255, given + 1))


def test_a_class_that_is_left_out_becomes_255_and_later_ones_move_up(small_pack: Path):
    split = read_pack(small_pack, ["cow"])
    assert split.train.class_names == ("sky", "horse")
    assert [new_values(CLASSES.tolist(), ["cow"])[k] for k in (0, 1, 2, 255)] == [1, 255, 2, 255]
    with pytest.raises(ValueError, match="gnu is no class; there are sky, cow, horse"):
        read_pack(small_pack, ["gnu"])


def test_camvid_has_its_pictures_and_nearly_every_class_in_each():
    split = read_pack(pack("camvid120/camvid120.npz"))
    assert split.train.images.shape == (367, 120, 160, 3)
    assert split.test.masks.shape == (233, 120, 160)
    with_class = dict(
        zip(split.train.class_names, np.count_nonzero(split.train.labels, axis=0), strict=True)
    )
    assert with_class["sky"] == 366
    assert with_class["fence"] == 173
    assert with_class["bicyclist"] == 201
    assert (split.test.labels > 0).sum(axis=0).tolist()[:3] == [232, 233, 232]
    red, green, blue = split.train.images[:, :60].mean(axis=(0, 1, 2))
    assert blue > green > red - 10  # the sky's half


def test_msrc_has_21_classes_without_horses_and_mountains():
    split = read_pack(pack("msrc160/msrc160.npz"), ["horse", "mountain"])
    assert (len(split.train), len(split.test)) == (352, 119)
    assert len(split.train.class_names) == 21
    with_class = dict(
        zip(split.train.class_names, np.count_nonzero(split.train.labels, axis=0), strict=True)
    )
    assert (with_class["building"], with_class["cow"], with_class["boat"]) == (85, 29, 18)
    padded = (split.train.images == 0).all(axis=3)[:, 110:].all(axis=(1, 2))
    assert padded.any()
    assert (split.train.masks[padded, 110:] == 255).all()
