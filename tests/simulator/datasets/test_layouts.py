"""Data sets that lie on disk as folders of pictures, and what is said where they do not."""

from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest

from fleetledger.simulator.datasets.files import ImageFiles
from fleetledger.simulator.datasets.image_folder import load_image_folder
from fleetledger.simulator.datasets.imagenet import load_imagenet
from fleetledger.simulator.datasets.imagenet_r import load_imagenet_r
from fleetledger.simulator.datasets.images import Split
from fleetledger.simulator.datasets.mini_imagenet import load_mini_imagenet
from fleetledger.simulator.datasets.tiny_imagenet import load_tiny_imagenet
from fleetledger.simulator.errors import DatasetError
from tests.simulator.datasets.drawing import draw_all


def listed(part: ImageFiles) -> list[tuple[str, str]]:
    names = [part.class_names[label] for label in part.labels]
    return list(zip(part.paths, names, strict=True))


def numbered(folder: str, count: int) -> list[str]:
    return [f"{folder}/{number}.png" for number in range(count)]


@pytest.mark.parametrize("part", ["test", "val"])
def test_a_folder_with_two_parts_is_taken_as_it_is(part: str, tmp_path: Path):
    draw_all(tmp_path, "train/fox/1.png", "train/eel/deep/2.JPG", f"{part}/fox/3.png")
    (tmp_path / "train" / "fox" / "notes.txt").write_text("no picture")
    draw_all(tmp_path, "train/.hidden/4.png", "train/fox/.5.png")
    split = load_image_folder(tmp_path, 0.5, seed=0)
    assert split.train.class_names == split.test.class_names == ("eel", "fox")
    assert listed(split.train) == [("train/eel/deep/2.JPG", "eel"), ("train/fox/1.png", "fox")]
    assert listed(split.test) == [(f"{part}/fox/3.png", "fox")]
    assert split.test.picture(0).size == (5, 6)


def test_a_folder_with_one_part_is_cut_by_share_and_seed(tmp_path: Path):
    draw_all(tmp_path, *numbered("fox", 8), *numbered("eel", 4))
    first, again, other = (load_image_folder(tmp_path, 0.25, seed) for seed in (1, 1, 2))
    assert np.bincount(first.test.labels).tolist() == [1, 2]
    assert np.bincount(first.train.labels).tolist() == [3, 6]
    assert not set(first.train.paths) & set(first.test.paths)
    assert first.test.paths == again.test.paths != other.test.paths


def test_a_relative_root_works_too(tmp_path: Path, monkeypatch):
    draw_all(tmp_path, "train/fox/1.png", "test/fox/2.png")
    monkeypatch.chdir(tmp_path)
    assert load_image_folder(Path(), 0.5, seed=0).train.paths == ("train/fox/1.png",)


def test_names_that_no_device_could_use_are_refused(tmp_path: Path):
    draw_all(tmp_path, "train/fox /1.png", "test/fox /2.png")
    with pytest.raises(DatasetError, match="rename the class"):
        load_image_folder(tmp_path, 0.5, seed=0)


def test_test_pictures_of_an_unknown_class_are_refused(tmp_path: Path):
    draw_all(tmp_path, "train/fox/1.png", "test/fox/2.png", "test/gnu/3.png")
    with pytest.raises(DatasetError, match=r"1 class has test pictures .* 'gnu'"):
        load_image_folder(tmp_path, 0.5, seed=0)


def test_imagenet_is_named_by_wordnet_number(tmp_path: Path):
    draw_all(tmp_path, "train/n02/a.JPEG", "train/n01/b.JPEG", "val/n01/c.JPEG", "val/n02/d.JPEG")
    split = load_imagenet(tmp_path)
    assert split.train.class_names == ("n01", "n02")
    assert listed(split.test) == [("val/n01/c.JPEG", "n01"), ("val/n02/d.JPEG", "n02")]


def test_imagenets_unsorted_validation_pictures_are_told(tmp_path: Path):
    draw_all(tmp_path, "train/n01/a.JPEG", "val/ILSVRC2012_val_00000001.JPEG")
    with pytest.raises(DatasetError, match=r"val: no class folders .* sort the 50,000 pictures"):
        load_imagenet(tmp_path)


def rendered(root: Path) -> list[str]:
    """Draw ten pictures of each of two classes of ImageNet-R."""
    files = [f"{wnid}/art_{number}.jpg" for wnid in ("n01", "n02") for number in range(10)]
    draw_all(root, *files)
    (root / "README.txt").write_text("no picture")
    return files


def test_imagenet_r_is_cut_by_the_digests_of_names_whatever_else_lies_there(tmp_path: Path):
    files = rendered(tmp_path)
    split = load_imagenet_r(tmp_path, 0.2)
    expected = [
        name
        for wnid in ("n01", "n02")
        for name in sorted(
            (name for name in files if name.startswith(wnid)),
            key=lambda name: sha256(name.encode()).hexdigest(),
        )[:2]
    ]
    assert list(split.test.paths) == sorted(expected)
    assert sorted([*split.train.paths, *split.test.paths]) == files
    draw_all(tmp_path, "n03/art_0.jpg")
    assert load_imagenet_r(tmp_path, 0.2).test.paths == split.test.paths


def test_imagenet_r_is_cut_by_a_list_of_another_program(tmp_path: Path):
    files = rendered(tmp_path)
    (tmp_path / "test.txt").write_text("data/imagenet-r/n02/art_3.jpg\n\nn01/art_0.jpg\n")
    split = load_imagenet_r(tmp_path, 0.2)
    assert sorted(split.test.paths) == ["n01/art_0.jpg", "n02/art_3.jpg"]
    assert len(split.train) == len(files) - 2
    (tmp_path / "train.txt").write_text("n01/art_1.jpg\nn02/art_1.jpg\n")
    assert load_imagenet_r(tmp_path, 0.2).train.paths == ("n01/art_1.jpg", "n02/art_1.jpg")


def test_lists_of_imagenet_r_that_do_not_fit_are_told(tmp_path: Path):
    rendered(tmp_path)
    (tmp_path / "test.txt").write_text("n01/art_0.jpg\nn01/gone.jpg\n")
    with pytest.raises(DatasetError, match=r"test\.txt: line 2: 'n01/gone\.jpg' is not among"):
        load_imagenet_r(tmp_path, 0.2)
    (tmp_path / "test.txt").write_text("n01/art_0.jpg\n")
    (tmp_path / "train.txt").write_text("n01/art_0.jpg\n")
    with pytest.raises(DatasetError, match=r"n01/art_0\.jpg stands in train\.txt and in test"):
        load_imagenet_r(tmp_path, 0.2)


def test_imagenet_r_may_be_sorted_into_two_parts(tmp_path: Path):
    draw_all(tmp_path, "train/n01/a.jpg", "test/n01/b.jpg")
    assert load_imagenet_r(tmp_path, 0.2).test.paths == ("test/n01/b.jpg",)
    with pytest.raises(DatasetError, match=r"imagenet-r\.tar"):
        load_imagenet_r(tmp_path / "train" / "n01", 0.2)


def tiny(root: Path) -> None:
    draw_all(root, "train/n01/images/n01_0.JPEG", "train/n02/images/n02_0.JPEG")
    draw_all(root, "val/images/val_0.JPEG", "val/images/val_1.JPEG", "test/images/test_0.JPEG")
    lines = ("val_0.JPEG\tn02\t0\t32\t44\t62", "val_1.JPEG\tn01\t52\t55\t57\t59")
    (root / "val" / "val_annotations.txt").write_text("\n".join(lines) + "\n")


def test_tiny_imagenets_annotations_are_read(tmp_path: Path):
    tiny(tmp_path)
    split = load_tiny_imagenet(tmp_path)
    assert listed(split.train)[1] == ("train/n02/images/n02_0.JPEG", "n02")
    assert listed(split.test) == [
        ("val/images/val_0.JPEG", "n02"),
        ("val/images/val_1.JPEG", "n01"),
    ]


def test_tiny_imagenet_may_be_sorted_into_folders(tmp_path: Path):
    draw_all(tmp_path, "train/n01/images/a.JPEG", "val/n01/images/b.JPEG")
    assert listed(load_tiny_imagenet(tmp_path).test) == [("val/n01/images/b.JPEG", "n01")]


def test_a_torn_annotation_is_named(tmp_path: Path):
    tiny(tmp_path)
    (tmp_path / "val" / "val_annotations.txt").write_text("val_0.JPEG\n")
    with pytest.raises(DatasetError, match=r"val_annotations\.txt: line 1"):
        load_tiny_imagenet(tmp_path)


def mini(root: Path) -> None:
    draw_all(root, *numbered("train/n03", 4), *numbered("val/n01", 4), *numbered("test/n02", 4))


def mini_table(root: Path) -> None:
    for part, name in (("train", "n03"), ("val", "n01"), ("test", "n02")):
        files = [f"{name}_{number}.jpg" for number in range(4)]
        draw_all(root, *(f"images/{file}" for file in files))
        rows = [f"{file},{name}" for file in files]
        (root / f"{part}.csv").write_text("\n".join(["filename,label", *rows]) + "\n")


@pytest.mark.parametrize("lay", [mini, mini_table])
def test_mini_imagenets_few_shot_parts_are_pooled(lay, tmp_path: Path):
    lay(tmp_path)
    split: Split[ImageFiles] = load_mini_imagenet(tmp_path, 0.25, seed=0)
    assert split.train.class_names == ("n01", "n02", "n03")
    assert np.bincount(split.train.labels).tolist() == [3, 3, 3]
    assert np.bincount(split.test.labels).tolist() == [1, 1, 1]
    assert split.test.picture(0).size == (5, 6)


def test_mini_imagenet_in_parts_of_the_same_classes_stays_as_it_is(tmp_path: Path):
    draw_all(tmp_path, "train/n01/a.jpg", "train/n02/b.jpg", "test/n01/c.jpg", "val/n02/d.jpg")
    split = load_mini_imagenet(tmp_path, 0.25, seed=0)
    assert split.train.paths == ("train/n01/a.jpg", "train/n02/b.jpg")
    assert split.test.paths == ("test/n01/c.jpg",)


def test_a_table_without_the_columns_is_refused(tmp_path: Path):
    (tmp_path / "train.csv").write_text("file,class\na.jpg,n01\n")
    with pytest.raises(DatasetError, match="give filename,label"):
        load_mini_imagenet(tmp_path, 0.25, seed=0)


@pytest.mark.parametrize(
    ("load", "told"),
    [
        (lambda root: load_image_folder(root, 0.5, 0), "train/<class>/ and test/<class>/"),
        (lambda root: load_mini_imagenet(root, 0.5, 0), "images/ with train.csv"),
        (load_tiny_imagenet, "unpack .*tiny-imagenet-200.zip"),
        (load_imagenet, "train/<wnid>/ and val/<wnid>/ .* image-net.org"),
    ],
)
@pytest.mark.parametrize("there", [True, False])
def test_what_is_missing_is_told_with_what_to_put_where(load, told: str, there, tmp_path: Path):
    root = tmp_path if there else tmp_path / "nowhere"
    with pytest.raises(DatasetError, match=told) as caught:
        load(root)
    assert str(root) in str(caught.value)
