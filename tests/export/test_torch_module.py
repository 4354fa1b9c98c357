"""Networks from outside as ONNX: parity with torch, growing heads, features of a backbone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from fleetledger.export.backbone import import_backbone
from fleetledger.export.errors import ModelFileError, ParityError
from fleetledger.export.network import export_body, export_network
from fleetledger.export.network_head import NETWORK_RULES, NetworkHead
from fleetledger.export.package import Lineage, ModelFacts, pack_model
from fleetledger.export.runtime import LoadedModel
from fleetledger.export.torch_module import TOLERANCE, require_trunk_parity
from fleetledger.learning.networks.conversion import to_arrays, to_tensors
from fleetledger.learning.networks.head import HeadKind, grow_head
from fleetledger.learning.networks.module_body import ModuleBody
from fleetledger.learning.networks.network import Network
from fleetledger.learning.networks.running_statistics import measured_statistics
from fleetledger.learning.networks.torch_layers import Mode, forward
from fleetledger.schemas.models import FEATURES, Preprocessing
from fleetledger.schemas.values import ClassName
from tests.learning.networks.outside import OUTSIDE

pytestmark = pytest.mark.torch

OF_PICTURES = [name for name, (_, shape) in OUTSIDE.items() if len(shape) == 3]
NAMES = tuple(ClassName(name) for name in ("apple", "pear", "plum"))


def network_of(name: str, head: HeadKind = "linear") -> Network:
    factory, shape = OUTSIDE[name]
    return Network(ModuleBody(name, factory, shape), head)


def preprocessing_of(name: str) -> Preprocessing:
    channels, side, _ = OUTSIDE[name][1]
    ones = (1.0,) * channels
    mode = "RGB" if channels == 3 else "L"
    return Preprocessing(
        mode=mode, size=(side, side), mean=ones, deviation=ones, input_name="image"
    )


def used(network: Network, classes: int = 2) -> dict[str, np.ndarray]:
    """Return tensors as training leaves them: running statistics are those of samples."""
    network = replace(network, head_dropout=0.0)
    parameters, buffers = to_tensors(network.initial(7, NAMES[:classes]))
    shape = network.body.shape  # type: ignore[attr-defined]
    samples = torch.randn(16, *shape, generator=torch.Generator().manual_seed(1))
    return to_arrays(
        parameters, measured_statistics(network, parameters, buffers, samples.split(8))
    )


def scores_of(network: Network, arrays, inputs) -> np.ndarray:
    with torch.no_grad():
        outputs = forward(network, *to_tensors(arrays), torch.from_numpy(inputs), Mode())
    return outputs.logits.numpy()


@pytest.mark.parametrize("head", ["linear", "cosine", "hidden"])
@pytest.mark.parametrize("name", OF_PICTURES)
def test_a_network_of_two_stages_runs_as_onnx_with_torchs_scores(name: str, head: HeadKind) -> None:
    network, preprocessing = network_of(name, head), preprocessing_of(name)
    first = used(network)
    for arrays in (first, grow_head(first, NAMES[2:], 7)):
        files = export_network(network, arrays, preprocessing)
        count = len(arrays["head.weight"])
        facts = ModelFacts(1, "rounds", NAMES[:count], ledger_index=4, created_ns=5)
        lineage = Lineage(files.trunk, files.golden, preprocessing)
        model = pack_model(lineage, facts, files.head, NETWORK_RULES)
        assert model.manifest.parity.agreement == 1
        inputs = np.random.default_rng(1).normal(size=(5, *preprocessing.shape)).astype(np.float32)
        features = LoadedModel(files.trunk).run({"image": inputs})[FEATURES]
        expected = scores_of(network, arrays, inputs)
        difference = np.abs(files.head.expected(features) - expected).max()
        assert difference <= 1e-4 * max(1.0, np.abs(expected).max())
    assert require_trunk_parity(network, arrays, files.trunk, preprocessing) < TOLERANCE


def test_equal_networks_make_equal_files_and_the_body_alone_is_a_backbone() -> None:
    network, preprocessing = network_of("group_norm_cnn"), preprocessing_of("group_norm_cnn")
    arrays = used(network)
    one, other = (export_network(network, arrays, preprocessing) for _ in range(2))
    assert one.trunk == other.trunk
    body = import_backbone(export_body(network, arrays, preprocessing), preprocessing)
    assert body.feature_width == network.width


@pytest.mark.parametrize("head", ["linear", "cosine", "hidden"])
def test_a_network_on_a_backbones_features_is_a_head(head: HeadKind) -> None:
    def adapter(shape):
        return nn.Sequential(nn.Linear(*shape, 12, bias=False), nn.SiLU(), nn.LayerNorm(12))

    network = Network(ModuleBody("adapter", adapter, (20,)), head)
    arrays = network.initial(7, NAMES)
    made = NetworkHead(network, arrays, 20)
    features = np.random.default_rng(1).normal(size=(6, 20)).astype(np.float32)
    found = LoadedModel(made.file(1.0)).run({FEATURES: features})["scores"]
    np.testing.assert_allclose(found, made.expected(features), atol=1e-5)
    np.testing.assert_allclose(found, scores_of(network, arrays, features), atol=1e-5)


def test_a_module_that_torch_cannot_write_is_refused_with_a_way_out() -> None:
    class Sorted(nn.Module):
        def __init__(self, channels):
            super().__init__()
            self.layer = nn.Conv2d(channels, 4, 3)

        def forward(self, pictures):
            return torch.linalg.matrix_exp(self.layer(pictures)).mean((2, 3))

    network = Network(ModuleBody("sorted", lambda shape: Sorted(shape[0]), (1, 8, 8)))
    with pytest.raises(
        ModelFileError, match=r"cannot write network 'sorted' as ONNX .* another layer"
    ):
        export_network(network, network.initial(1, NAMES), preprocessing_of("group_norm_cnn"))


def test_a_module_that_is_another_one_in_onnx_is_refused() -> None:
    class Traced(nn.Module):
        """Chooses by values, which the exporter takes as they are for its example of zeros."""

        def __init__(self, channels):
            super().__init__()
            self.layer = nn.Conv2d(channels, 4, 3)

        def forward(self, pictures):
            features = self.layer(pictures).mean((2, 3))
            return features * 2 if float(pictures.detach().abs().sum()) > 0 else features

    network = Network(ModuleBody("traced", lambda shape: Traced(shape[0]), (1, 8, 8)))
    with pytest.raises(ParityError, match=r"a layer of 'traced' .* chooses by values"):
        export_network(network, network.initial(1, NAMES), preprocessing_of("group_norm_cnn"))
