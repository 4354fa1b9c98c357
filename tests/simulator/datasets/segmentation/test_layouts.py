"""VOC, SBD, ADE20k and CamVid as they lie on disks, and what is said where they do not."""

from pathlib import Path

import numpy as np
import pytest

from fleetledger.simulator.datasets.segmentation.ade20k import load_ade20k, read_names
from fleetledger.simulator.datasets.segmentation.camvid import CLASS_NAMES, load_camvid
from fleetledger.simulator.datasets.segmentation.voc import load_voc
from fleetledger.simulator.errors import DatasetError
from tests.simulator.datasets.segmentation.making import (
    random_masks,
    random_pictures,
    save_mask,
    save_picture,
)


def save_matlab(path: Path, content: dict[str, np.ndarray], *, small: bool = False) -> None:
    from scipy.io import savemat

    savemat(path, content, do_compression=small)


def draw(root: Path, picture: str, mask: str, values: np.ndarray) -> None:
    save_picture(root / picture, random_pictures(1, values.shape)[0])
    save_mask(root / mask, values)


VOC = "VOCdevkit/VOC2012"
VOC_MASKS = random_masks(3, 20)


def voc(root: Path) -> None:
    for number, name in enumerate(("2007_1", "2007_2", "2007_3")):
        picture = f"{VOC}/JPEGImages/{name}.jpg"
        draw(root, picture, f"{VOC}/SegmentationClass/{name}.png", VOC_MASKS[number])
    lists = root / VOC / "ImageSets" / "Segmentation"
    lists.mkdir(parents=True)
    (lists / "train.txt").write_text("2007_2\n2007_1\n")
    (lists / "val.txt").write_text("2007_3\n")


def sbd(root: Path) -> dict[str, np.ndarray]:
    """Five pictures; one is a training picture of VOC too, and one a test picture."""
    listed = {"train": ["2008_1", "2007_1", "2008_3"], "val": ["2008_2", "2007_3"]}
    names = [*listed["train"], *listed["val"]]
    masks = dict(zip(names, random_masks(5, 20, (4, 7), seed=1), strict=True))
    for name, mask in masks.items():
        save_picture(root / "img" / f"{name}.jpg", random_pictures(1, mask.shape)[0])
        (root / "cls").mkdir(exist_ok=True)
        content = np.array([(mask,)], dtype=[("Segmentation", object)])
        save_matlab(root / "cls" / f"{name}.mat", {"GTcls": content}, small=True)
    for part, found in listed.items():
        (root / f"{part}.txt").write_text("\n".join(found))
    return masks


def test_voc_alone_has_its_own_lists(tmp_path: Path):
    voc(tmp_path)
    split = load_voc(tmp_path)
    assert [pair.mask for pair in split.train.pairs] == [
        f"{VOC}/SegmentationClass/2007_2.png",
        f"{VOC}/SegmentationClass/2007_1.png",
    ]
    assert np.array_equal(split.train.scene(1).mask, VOC_MASKS[0])
    assert np.array_equal(split.test.scene(0).mask, VOC_MASKS[2])
    assert split.train.class_names[0] == "aeroplane"
    assert split.train.class_names[19] == "tvmonitor"


@pytest.mark.parametrize("folder", [".", "sbd"])
def test_sbd_adds_what_is_in_neither_of_vocs_lists(folder: str, tmp_path: Path):
    voc(tmp_path)
    masks = sbd(tmp_path / folder)
    split = load_voc(tmp_path)
    found = [Path(pair.mask).name for pair in split.train.pairs]
    assert found == ["2007_2.png", "2007_1.png", "2008_1.mat", "2008_2.mat", "2008_3.mat"]
    assert len(split.test) == 1
    for index, name in ((2, "2008_1"), (3, "2008_2"), (4, "2008_3")):
        assert np.array_equal(split.train.scene(index).mask, masks[name])
    assert (split.train.labels > 0)[3].tolist() == [k + 1 in masks["2008_2"] for k in range(20)]


def test_a_matlab_file_that_holds_something_else_is_named(tmp_path: Path):
    voc(tmp_path)
    sbd(tmp_path)
    split = load_voc(tmp_path)
    mat = tmp_path / "cls" / "2008_1.mat"
    whole = mat.read_bytes()
    for content in (b"nothing", whole[: len(whole) // 2], b""):
        mat.write_bytes(content)
        with pytest.raises(DatasetError, match=r"2008_1.mat: .*copy the file again"):
            split.train.mask(2)
    save_matlab(mat, {"other": np.zeros(3)})
    with pytest.raises(DatasetError, match=r"2008_1.mat: .*copy the file again"):
        split.train.mask(2)
    content = np.array([(np.zeros((2, 2)),)], dtype=[("Segmentation", object)])
    save_matlab(mat, {"GTcls": content})
    with pytest.raises(DatasetError, match=r"float64 of shape \(2, 2\)"):
        split.train.mask(2)


def test_what_voc_misses_is_told(tmp_path: Path):
    with pytest.raises(DatasetError, match=r"VOC2012: there is no such folder; .*download=True"):
        load_voc(tmp_path)
    voc(tmp_path)
    (tmp_path / VOC / "JPEGImages" / "2007_1.jpg").unlink()
    with pytest.raises(DatasetError, match=r"2007_1.jpg: is missing, and 0 more files are"):
        load_voc(tmp_path)
    (tmp_path / VOC / "ImageSets" / "Segmentation" / "val.txt").write_text("\n")
    with pytest.raises(DatasetError, match=r"val.txt: names no picture"):
        load_voc(tmp_path)
    (tmp_path / VOC / "ImageSets" / "Segmentation" / "val.txt").unlink()
    with pytest.raises(DatasetError, match=r"val.txt: cannot be read"):
        load_voc(tmp_path)


def test_sbd_without_its_lists_is_told(tmp_path: Path):
    voc(tmp_path)
    sbd(tmp_path)
    (tmp_path / "train.txt").unlink()
    with pytest.raises(DatasetError, match=r"train.txt: cannot be read"):
        load_voc(tmp_path)


INFO = """Idx\tRatio\tTrain\tVal\tName
1\t0.1576\t11664\t1172\twall
2\t0.1072\t6046\t612\tbuilding, edifice
3 \t0.0878\t8265\t796\tbed """


def ade(root: Path, masks: np.ndarray) -> None:
    folder = root / "ADEChallengeData2016"
    for part, mask in zip(("training", "validation"), masks, strict=True):
        draw(folder, f"images/{part}/ADE_1.jpg", f"annotations/{part}/ADE_1.png", mask)
    (folder / "objectInfo150.txt").write_text(INFO)


def test_ade20k_is_called_by_the_first_name_of_every_class(tmp_path: Path):
    masks = random_masks(2, 3)
    ade(tmp_path, masks)
    split = load_ade20k(tmp_path)
    assert split.train.class_names == ("wall", "building", "bed")
    assert np.array_equal(split.train.scene(0).mask, masks[0])
    assert np.array_equal(split.test.scene(0).mask, masks[1])


def test_the_names_of_copies_with_another_column_are_read(tmp_path: Path):
    info = tmp_path / "objectInfo150.txt"
    info.write_text("Idx     Ratio   Train   Val  Stuff Name\n1   0.15  11 12  1   wall, side\n")
    assert read_names(info) == ("wall",)


def test_what_ade20k_misses_is_told(tmp_path: Path):
    with pytest.raises(DatasetError, match=r"ADEChallengeData2016.zip"):
        load_ade20k(tmp_path)
    ade(tmp_path, random_masks(2, 3))
    folder = tmp_path / "ADEChallengeData2016"
    (folder / "objectInfo150.txt").write_text(INFO.replace("\n2\t", "\n4\t"))
    with pytest.raises(DatasetError, match="3 classes that do not count from 1 on"):
        load_ade20k(tmp_path)
    (folder / "objectInfo150.txt").unlink()
    with pytest.raises(DatasetError, match=r"objectInfo150.txt: cannot be read"):
        load_ade20k(tmp_path)
    (folder / "objectInfo150.txt").write_text(INFO)
    save_mask(folder / "annotations/training/ADE_2.png", random_masks(1, 3)[0])
    with pytest.raises(DatasetError, match=r"1 masks have no picture .* ADE_2.png"):
        load_ade20k(tmp_path)
    (folder / "annotations/training/ADE_2.png").rename(folder / "images/training/ADE_2.png")
    with pytest.raises(DatasetError, match=r"annotations/training/ADE_2.png: is missing"):
        load_ade20k(tmp_path)


def test_camvids_index_masks_count_from_zero_and_eleven_is_left_out(tmp_path: Path):
    values = np.arange(12, dtype=np.uint8).reshape(3, 4)
    for part in ("train", "test"):
        draw(tmp_path, f"{part}/0001.png", f"{part}annot/0001.png", values)
    split = load_camvid(tmp_path)
    assert split.test.mask(0).ravel().tolist() == [*range(1, 12), 255]
    assert split.train.class_names[0] == "sky"
    assert split.train.class_names[10] == "bicyclist"
    save_mask(tmp_path / "testannot" / "0001.png", np.full((3, 4), 12, np.uint8))
    with pytest.raises(DatasetError, match=r"testannot/0001.png: mask: value 12 is no class"):
        split.test.mask(0)


def test_camvids_colours_become_the_same_eleven_classes(tmp_path: Path):
    colours = {
        (128, 128, 128): "sky",
        (128, 0, 0): "building",
        (0, 128, 64): "building",
        (0, 0, 64): "pole",
        (128, 0, 192): "road",
        (64, 192, 128): "pavement",
        (192, 192, 0): "tree",
        (0, 64, 64): "sign_symbol",
        (64, 64, 128): "fence",
        (192, 128, 192): "car",
        (64, 128, 64): "pedestrian",
        (192, 0, 192): "bicyclist",
    }
    pixels = np.array([*colours, (0, 0, 0)], np.uint8).reshape(1, 13, 3)
    for part in ("train", "test"):
        save_picture(tmp_path / part / "0001.png", random_pictures(1, (1, 13))[0])
        save_picture(tmp_path / f"{part}_labels" / "0001_L.png", pixels)
    split = load_camvid(tmp_path)
    expected = [*(1 + CLASS_NAMES.index(name) for name in colours.values()), 255]
    assert split.train.scene(0).mask.ravel().tolist() == expected
    assert split.test.mask(0).ravel().tolist() == expected


def test_a_colour_of_no_class_is_named(tmp_path: Path):
    for part in ("train", "test"):
        save_picture(tmp_path / part / "0001.png", random_pictures(1)[0])
        save_picture(tmp_path / f"{part}_labels" / "0001_L.png", np.full((6, 5, 3), 77, np.uint8))
    with pytest.raises(DatasetError, match=r"0001_L.png: mask: colour \(77, 77, 77\) is none"):
        load_camvid(tmp_path).train.mask(0)


def test_what_camvid_misses_is_told(tmp_path: Path):
    with pytest.raises(DatasetError, match=r"train: there is no such folder; CamVid is expected"):
        load_camvid(tmp_path)
    for part in ("train", "trainannot", "test", "testannot"):
        (tmp_path / part).mkdir()
    with pytest.raises(DatasetError, match=r"train: no pictures"):
        load_camvid(tmp_path)
