"""The packs of real images, where FLEETLEDGER_PACKS names the folder that holds them."""

import os
from pathlib import Path

import numpy as np
import pytest

from benchmarks.papers.packs.omniglot import character_names, read_pack
from benchmarks.papers.packs.to_npz import read_packs
from fleetledger.simulator.datasets.loading import DataSettings, load_split
from fleetledger.simulator.datasets.npz import save_npz


def pack(name: str) -> Path:
    folder = os.environ.get("FLEETLEDGER_PACKS")
    if folder is None:
        pytest.skip("FLEETLEDGER_PACKS names no folder with packs")
    if not (path := Path(folder, name)).is_file():
        pytest.skip(f"{path}: is not there")
    return path


def test_characters_are_counted_within_their_alphabet():
    names = character_names(np.array([1, 1, 0], np.uint8), np.array(["Greek", "N_Ko"]))
    assert names == ("N_Ko-character01", "N_Ko-character02", "Greek-character01")


def test_a_small_omniglot_goes_through_the_npz_layout(tmp_path: Path):
    drawn = np.random.default_rng(0).integers(0, 256, (24, 28, 28), dtype=np.uint8)
    np.savez(
        tmp_path / "pack.npz",
        x=drawn,
        y=np.repeat(np.arange(3, dtype=np.uint16), 8),
        drawer=np.tile(np.arange(1, 9, dtype=np.uint8), 3),
        class_alphabet=np.array([0, 1, 1], np.uint8),
        alphabet_names=np.array(["Greek", "N_Ko"]),
    )
    save_npz(tmp_path / "omniglot.npz", read_pack(tmp_path / "pack.npz", 0.25, seed=4))
    split = load_split(DataSettings(set="npz", root=str(tmp_path / "omniglot.npz")), seed=0)
    assert split.train.class_names == ("Greek-character01", "N_Ko-character01", "N_Ko-character02")
    for part, number in ((split.train, 6), (split.test, 2)):
        assert np.bincount(part.labels).tolist() == [number] * 3
        assert part.owners is not None
        for index, (label, owner) in enumerate(zip(part.labels, part.owners, strict=True)):
            assert np.array_equal(np.asarray(part.picture(index)), drawn[label * 8 + owner - 1])


def test_every_drawer_of_the_omniglot_pack_has_drawn_every_class():
    split = read_pack(pack("omniglot28/omniglot28.npz"), 0.25, seed=0)
    assert split.train.class_names[0] == "Alphabet_of_the_Magi-character01"
    assert len(set(split.train.class_names)) == 1623
    drawn = [
        {(int(label), int(owner)) for label, owner in zip(part.labels, part.owners, strict=True)}
        for part in (split.train, split.test)
    ]
    assert not drawn[0] & drawn[1]
    assert drawn[0] | drawn[1] == {
        (label, owner) for label in range(1623) for owner in range(1, 21)
    }


def test_the_three_parts_are_the_whole_cifar100():
    parts = [pack(f"cifar100/cifar100_{name}.npz") for name in ("core", "rest_a", "rest_b")]
    split = read_packs(parts, "fine_names")
    assert np.bincount(split.train.labels).tolist() == [500] * 100
    assert np.bincount(split.test.labels).tolist() == [100] * 100
    assert split.train.class_names == tuple(sorted(split.train.class_names))
    mean = split.train.images.mean(axis=(0, 1, 2)) / 255  # of the official release
    assert mean == pytest.approx([0.5071, 0.4865, 0.4409], abs=1e-4)
