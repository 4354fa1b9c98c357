"""Features of torch: those of ONNX Runtime but for the last bits, in order, kept apart on disk."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fleetledger.export.backbone import import_backbone
from fleetledger.export.rules import STANDARD_DOMAINS, read_model
from fleetledger.simulator.features import bank as bank_module
from fleetledger.simulator.features.bank import open_bank
from fleetledger.simulator.features.extraction import BatchExtractor
from fleetledger.simulator.features.frozen_features import ProjectedFeatures
from fleetledger.simulator.features.providers import CPU, TORCH_CUDA, Choice
from tests.export.networks import COLOUR
from tests.simulator.features.scenes import BACKBONE, Heard, frozen_model, images, split

pytestmark = pytest.mark.torch


def module():
    """The network of `BACKBONE`, built in torch of the same numbers."""
    import torch
    from onnx import numpy_helper
    from torch import nn

    (weights,) = (
        numpy_helper.to_array(tensor)
        for tensor in read_model(BACKBONE.data, STANDARD_DOMAINS).graph.initializer
        if tensor.name == "weights"
    )

    class Pooled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weights = nn.Parameter(torch.from_numpy(weights.copy()), requires_grad=False)

        def forward(self, batch):
            return torch.relu(nn.functional.conv2d(batch, self.weights)).mean((2, 3))

    return Pooled()


@pytest.mark.parametrize("batch", [1, 7, 100])
def test_torch_gives_what_onnx_runtime_gives(batch: int):
    from fleetledger.simulator.features.torch_extraction import TorchExtractor

    part = images(23, seed=4)
    samples = [(part, index) for index in range(len(part))]
    imported = import_backbone(BACKBONE.data, COLOUR).model
    output = str(read_model(imported, STANDARD_DOMAINS).graph.output[0].name)
    expected = [rows for rows, _ in BatchExtractor(imported, output, COLOUR, CPU).batches(samples)]
    given = list(TorchExtractor(module(), COLOUR, "cpu", batch).batches(samples))
    assert [len(rows) for rows, _ in given] == [
        min(batch, 23 - first) for first in range(0, 23, batch)
    ]
    assert np.concatenate([rows for rows, _ in given]) == pytest.approx(
        np.concatenate(expected), rel=1e-4, abs=1e-4
    )
    assert all(seconds > 0 for _, seconds in given)


def test_a_bank_that_torch_fills_is_told_and_kept_apart(tmp_path: Path, monkeypatch):
    from fleetledger.simulator.features import torch_extraction

    chosen = Choice(TORCH_CUDA, "torch extracts")
    monkeypatch.setattr(bank_module, "choose_extraction", lambda *_, **__: chosen)
    built = torch_extraction.TorchExtractor
    monkeypatch.setattr(
        torch_extraction,
        "TorchExtractor",
        lambda module, preprocessing, device: built(module, preprocessing, "cpu"),
    )
    heard, twin = Heard(), replace(BACKBONE, in_torch=module)
    by_torch = open_bank(split(), twin, tmp_path, "auto", heard).frozen(frozen_model("integer"))
    assert heard.remarks == ["torch extracts"]
    monkeypatch.undo()
    by_runtime = open_bank(split(), twin, tmp_path, "cpu", Heard()).frozen(frozen_model("integer"))
    assert isinstance(by_torch, ProjectedFeatures)
    assert len(list(tmp_path.iterdir())) == 2
    rows = by_runtime.train(np.arange(30))
    assert by_torch.train(np.arange(30)) == pytest.approx(rows, abs=0.02 * float(rows.max()))


def test_what_was_set_of_tf32_is_put_back():
    import torch

    from fleetledger.simulator.features.torch_extraction import TorchExtractor

    part = images(2, seed=4)
    torch.backends.cuda.matmul.allow_tf32 = True
    try:
        rows = TorchExtractor(module(), COLOUR, "cpu", 1).batches([(part, 0), (part, 1)])
        next(rows)
        assert not torch.backends.cuda.matmul.allow_tf32
        rows.close()
        assert torch.backends.cuda.matmul.allow_tf32
    finally:
        torch.backends.cuda.matmul.allow_tf32 = False


@pytest.mark.gpu
def test_a_gpu_gives_nearly_what_the_processor_gives():
    import torch

    if not torch.cuda.is_available():
        pytest.skip("torch finds no CUDA device")
    from fleetledger.simulator.features.torch_extraction import TorchExtractor

    part = images(300, seed=4)
    samples = [(part, index) for index in range(len(part))]
    cpu, gpu = (
        np.concatenate(
            [rows for rows, _ in TorchExtractor(module(), COLOUR, device).batches(samples)]
        )
        for device in ("cpu", "cuda")
    )
    assert gpu == pytest.approx(cpu, rel=1e-3, abs=1e-3)
