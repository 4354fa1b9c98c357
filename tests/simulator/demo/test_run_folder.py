"""The folder of one run."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from schemas.values import DeviceId
from simulator.datasets.digits import load_digits
from simulator.demo.run_folder import RunFolder, write_images
from simulator.errors import DemoError


def test_images_come_back_from_the_files_pixel_by_pixel(tmp_path: Path):
    digits = load_digits()
    some = digits.take(digits.of_classes((1, 4))[:60])
    write_images(tmp_path / "data", some, "stage-1")
    assert sorted(p.name for p in (tmp_path / "data").iterdir()) == ["1", "4"]
    for name in ("1", "4"):
        files = sorted((tmp_path / "data" / name).iterdir())
        read = np.stack([np.asarray(Image.open(file)) for file in files])
        assert np.array_equal(read, some.images[some.labels == int(name)])


def test_nothing_but_whole_class_folders_lies_beside_the_images(tmp_path: Path):
    digits = load_digits()
    write_images(tmp_path / "data", digits.take(digits.of_classes((0,))[:3]), "a")
    assert [p.name for p in tmp_path.iterdir()] == ["data"]


def test_a_class_that_is_there_already_is_refused(tmp_path: Path):
    digits = load_digits()
    some = digits.take(digits.of_classes((0,))[:3])
    write_images(tmp_path / "data", some, "a")
    with pytest.raises(DemoError, match="one stage"):
        write_images(tmp_path / "data", some, "b")


def test_paths_are_absolute_and_below_the_root(tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = RunFolder.create(Path("runs/one"))
    assert folder.root == tmp_path / "runs" / "one"
    assert folder.private_images(DeviceId("device-1")).is_relative_to(folder.root)
    assert folder.logs.is_dir()


def test_a_folder_that_holds_something_is_not_used(tmp_path: Path):
    (tmp_path / "mine.txt").write_text("keep")
    with pytest.raises(DemoError, match="not empty"):
        RunFolder.create(tmp_path)


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(DemoError, match="out"):
        RunFolder.create(tmp_path / "file" / "run")
