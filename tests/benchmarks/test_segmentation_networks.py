"""The benchmark of dense networks measures what it says it measures."""

from pathlib import Path

import numpy as np
import pytest

from benchmarks.speed.segmentation_networks.measuring import inference, step
from benchmarks.speed.segmentation_networks.run import write_files

MEASURED = {"wall_s", "processor_s", "imported_mib", "peak_mib"}


def test_an_inference_takes_time_and_memory_for_the_files_that_were_written(tmp_path: Path):
    pytest.importorskip("onnxruntime")
    sizes = write_files("small_dense", 24, tmp_path)
    assert sizes["features"] == [48, 12, 12]
    assert sizes["scores"] == [21, 24, 24]
    assert sizes["frozen_bytes"] == (tmp_path / "frozen.onnx").stat().st_size
    assert np.load(tmp_path / "picture.npy").shape == (1, 3, 24, 24)
    measured = inference(tmp_path)
    assert set(measured) == MEASURED
    assert 0 < measured["imported_mib"] <= measured["peak_mib"]


@pytest.mark.torch
def test_a_step_trains_the_networks_parameters():
    measured = step("small_dense", 16, 2)
    assert set(measured) == {*MEASURED, "parameters"}
    assert measured["parameters"] == 126_421
    assert measured["wall_s"] > 0
