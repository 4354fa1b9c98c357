"""What torch's two exporters write is answered on a device as by plain ONNX Runtime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx
import pytest

from fleetledger.export.model_file import read_model_file
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


@pytest.mark.parametrize(
    ("end", "batch"),
    [
        ("scores", "fixed"),
        ("softmax", "free"),
        ("log-softmax", "fixed"),
        *(
            pytest.param(end, batch, marks=pytest.mark.nightly)
            for end, batch in [("scores", "free"), ("softmax", "fixed"), ("log-softmax", "free")]
        ),
    ],
)
def test_the_exporter_of_today(end: str, batch: str, tmp_path: Path) -> None:
    """Every end and every batch once by day, their combinations by night."""
    pytest.importorskip("onnxscript", reason="torch's exporter of today needs it")
    import torch

    axes = {} if batch == "fixed" else {"dynamic_shapes": ({0: torch.export.Dim("batch")},)}
    model = exported(tmp_path / "m.onnx", end, dynamo=True, **axes)
    assert (tmp_path / "m.onnx.data").exists()  # as it writes weights unless it is told otherwise
    require_equal(model, tmp_path)


def with_token() -> Any:
    """Return a small transformer with a class token, as those of timm and torchvision."""
    import torch
    from torch import nn

    class Tokens(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.patches = nn.Conv2d(3, 16, 2, 2)
            self.token = nn.Parameter(torch.randn(1, 1, 16))
            self.layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
            self.end = nn.Linear(16, CLASSES)

        def forward(self, image: Any) -> Any:
            tokens = self.patches(image).flatten(2).transpose(1, 2)
            token = self.token.expand(image.shape[0], -1, -1)
            return self.end(self.layer(torch.cat([token, tokens], 1))[:, 0])

    torch.manual_seed(0)
    return Tokens().eval()


def test_a_class_token_of_todays_exporter_as_it_comes(tmp_path: Path) -> None:
    pytest.importorskip("onnxscript", reason="torch's exporter of today needs it")
    import torch

    file = tmp_path / "m.onnx"
    picture = torch.zeros(1, 3, 12, 10)
    torch.onnx.export(with_token(), (picture,), str(file), input_names=["image"])
    require_equal(onnx.load_model_from_string(read_model_file(file)), tmp_path)
