"""Calibration on arrays: a file may hold many, and equal ones count once."""

from pathlib import Path

import numpy as np

from fleetledger.export.variants.calibration import read_images
from fleetledger.schemas.arrays import ArrayPreprocessing


def test_rows_of_files_are_samples(tmp_path: Path) -> None:
    windows = np.random.default_rng(1).normal(size=(300, 2, 4)).astype(np.float32)
    (tmp_path / "walk").mkdir()
    np.save(tmp_path / "walk" / "many.npy", windows[:299])
    np.savez(tmp_path / "walk" / "again.npz", windows[:5])
    np.save(tmp_path / "walk" / "one.npy", windows[299])
    np.save(tmp_path / "walk" / "other.npy", windows[:, :, :3])
    spec = ArrayPreprocessing(mode="array", shape=(2, 4), input_name="window")
    found = read_images(tmp_path, spec)
    every = np.concatenate([found.calibration, found.held_out])
    assert every.shape == (300, 2, 4)
    assert {row.tobytes() for row in every} == {row.tobytes() for row in windows}
    assert set(found.class_names) == {"walk"}
