"""The same pictures and masks as torchvision's classes read from the same folders."""

from pathlib import Path

import numpy as np
import pytest

from fleetledger.simulator.datasets.segmentation.voc import load_voc
from tests.simulator.datasets.segmentation.test_layouts import sbd, voc

pytestmark = pytest.mark.torchvision


@pytest.fixture
def datasets():
    from fleetledger.export.torchvision_network import torchvision_module

    return torchvision_module("datasets")


def test_voc(datasets, tmp_path: Path):
    voc(tmp_path)
    split = load_voc(tmp_path)
    for part, name in ((split.train, "train"), (split.test, "val")):
        theirs = datasets.VOCSegmentation(str(tmp_path), image_set=name, download=False)
        assert len(theirs) == len(part)
        for index in range(len(part)):
            picture, mask = theirs[index]
            scene = part.scene(index)
            assert np.array_equal(scene.picture, picture)
            assert np.array_equal(scene.mask, np.asarray(mask))


def test_sbd(datasets, tmp_path: Path):
    voc(tmp_path)
    sbd(tmp_path)
    ours = load_voc(tmp_path).train
    found = {Path(pair.picture).stem: index for index, pair in enumerate(ours.pairs)}
    compared = 0
    for name in ("train", "val"):
        theirs = datasets.SBDataset(str(tmp_path), image_set=name, mode="segmentation")
        for (picture, mask), path in zip(theirs, theirs.images, strict=True):
            index = found.get(Path(path).stem)
            if index is None or ours.pairs[index].mask.endswith(".png"):
                continue  # VOC's own
            scene = ours.scene(index)
            assert np.array_equal(scene.picture, picture)
            assert np.array_equal(scene.mask, np.asarray(mask))
            compared += 1
    assert compared == 3
