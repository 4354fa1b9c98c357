"""What torch's two exporters write is answered on a device as by plain ONNX Runtime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx
import pytest

from export.model_file import read_model_file
from tests.export.makers import CLASSES
from tests.export.test_makers_exports import require_equal

pytestmark = pytest.mark.torch


def network(end: str) -> Any:
    import torch
    from torch import nn

    torch.manual_seed(0)
    layers = [
        nn.Conv2d(3, 8, 3),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Dropout(0.2),
        nn.Linear(8, CLASSES),
    ]
    last = {"softmax": nn.Softmax(dim=1), "log-softmax": nn.LogSoftmax(dim=1)}
    return nn.Sequential(*layers, *([last[end]] if end in last else [])).eval()


def exported(file: Path, end: str, **options: Any) -> onnx.ModelProto:
    import torch

    picture = torch.zeros(1, 3, 12, 10)
    torch.onnx.export(network(end), (picture,), str(file), input_names=["image"], **options)
    return onnx.load_model_from_string(read_model_file(file))


@pytest.mark.parametrize("end", ["scores", "softmax", "log-softmax"])
@pytest.mark.parametrize("batch", ["fixed", "free"])
def test_the_exporter_of_torchscript(end: str, batch: str, tmp_path: Path) -> None:
    axes = {"dynamic_axes": {"image": {0: "batch"}}} if batch == "free" else {}
    require_equal(exported(tmp_path / "m.onnx", end, dynamo=False, **axes), tmp_path)


@pytest.mark.parametrize("end", ["scores", "softmax", "log-softmax"])
@pytest.mark.parametrize("batch", ["fixed", "free"])
def test_the_exporter_of_today(end: str, batch: str, tmp_path: Path) -> None:
    pytest.importorskip("onnxscript", reason="torch's exporter of today needs it")
    import torch

    axes = {} if batch == "fixed" else {"dynamic_shapes": ({0: torch.export.Dim("batch")},)}
    model = exported(tmp_path / "m.onnx", end, dynamo=True, **axes)
    assert (tmp_path / "m.onnx.data").exists()  # as it writes weights unless it is told otherwise
    require_equal(model, tmp_path)
