"""Images to calibrate and to measure on come from one folder, and none is of both."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fleetledger.export.errors import CalibrationError
from fleetledger.export.variants.calibration import read_images
from tests.device_agent import model_files as models
from tests.device_agent.making import GREY_8


def fill(folder: Path, count: int) -> None:
    for name in models.CLASSES:
        models.put_pictures(folder, name, *range(count))


def test_half_calibrates_half_measures_and_names_are_those_of_folders(tmp_path: Path) -> None:
    fill(tmp_path, 101)
    (tmp_path / "loose.png").write_bytes(models.picture("dark", 999))
    (tmp_path / "dark" / "again.png").write_bytes(models.picture("dark", 0))
    (tmp_path / "dark" / "notes.txt").write_text("no image", encoding="utf-8")
    images = read_images(tmp_path, GREY_8)
    assert len(images.calibration) + len(images.held_out) == 203, "an equal file counts once"
    assert abs(len(images.calibration) - len(images.held_out)) <= 2
    assert len(images.class_names) == len(images.held_out)
    assert set(images.class_names) <= {"dark", "light", ""}
    both = {item.tobytes() for item in images.calibration} & {
        item.tobytes() for item in images.held_out
    }
    assert not both
    again = read_images(tmp_path, GREY_8)
    assert np.array_equal(again.calibration, images.calibration)


def test_images_that_are_too_few_are_refused_with_the_number_that_is_wanted(
    tmp_path: Path,
) -> None:
    fill(tmp_path, 50)
    with pytest.raises(
        CalibrationError, match="has 100 images that can be read; give at least 200"
    ):
        read_images(tmp_path, GREY_8)
    with pytest.raises(CalibrationError, match="is no folder"):
        read_images(tmp_path / "nowhere", GREY_8)
