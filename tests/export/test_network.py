"""A network as ONNX gives the scores of the network itself; the pair is an ordinary model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from fleetledger.export.backbone import import_backbone
from fleetledger.export.errors import ModelFileError
from fleetledger.export.golden import build_golden
from fleetledger.export.head import head_scores
from fleetledger.export.network import export_body, export_network
from fleetledger.export.network_head import NetworkHead
from fleetledger.export.package import Lineage, ModelFacts, pack_model
from fleetledger.export.runtime import LoadedModel
from fleetledger.learning.networks.feature_adjustment import FeatureAdjustment, Shortcut
from fleetledger.learning.networks.head import HeadKind
from fleetledger.learning.networks.network import Network
from fleetledger.learning.networks.plan import initial_arrays
from fleetledger.learning.networks.registry import NETWORKS, build_network
from fleetledger.learning.networks.vision_transformer import VisionTransformer
from fleetledger.schemas.models import FEATURES, Preprocessing
from fleetledger.schemas.values import ClassName

NAMES = ("cat", "dog", "owl")
TINY_VIT = VisionTransformer(16, 4, width=12, blocks=2, heads=3, hidden=20, adapter=5)
TINY = {"tiny vit": TINY_VIT, "tiny vit with LoRA": replace(TINY_VIT, lora=3)}
OF_PICTURES = {name for name, known in NETWORKS.items() if not (known.of_features or known.base)}
COLOUR = Preprocessing(
    mode="RGB",
    size=(16, 16),
    mean=(0.5, 0.4, 0.3),
    deviation=(0.2, 0.2, 0.3),
    input_name="image",
)


def used(network: Network) -> dict[str, npt.NDArray[Any]]:
    """Tensors as training leaves them: statistics are not those of the first moment."""
    random = np.random.default_rng(3)
    arrays: dict[str, npt.NDArray[Any]] = dict(network.initial(7, NAMES))
    for name, array in arrays.items():
        if name.endswith("running_var"):
            arrays[name] = random.uniform(0.5, 2, array.shape).astype(np.float32)
        elif name.endswith("running_mean"):
            arrays[name] = random.normal(0, 0.3, array.shape).astype(np.float32)
    return arrays


def own_scores(
    network: Network, arrays: Mapping[str, npt.NDArray[Any]], images: npt.NDArray[np.float32]
) -> npt.NDArray[np.float32]:
    import torch

    from fleetledger.learning.networks.plan import is_buffer
    from fleetledger.learning.networks.torch_layers import Mode, forward

    tensors = {name: torch.from_numpy(np.asarray(array)) for name, array in arrays.items()}
    parameters = {name: tensor for name, tensor in tensors.items() if not is_buffer(name)}
    buffers = {name: tensor for name, tensor in tensors.items() if is_buffer(name)}
    with torch.no_grad():
        outputs = forward(network, parameters, buffers, torch.from_numpy(images), Mode())
    return np.asarray(outputs.logits.numpy())


@pytest.mark.parametrize("head", ["linear", "cosine", "hidden"])
@pytest.mark.parametrize("name", [*sorted(OF_PICTURES), *TINY])
@pytest.mark.torch
def test_the_pair_gives_the_scores_of_the_network(name: str, head: HeadKind) -> None:
    network = Network(TINY[name], head) if name in TINY else build_network(name, COLOUR.shape, head)
    arrays = used(network)
    base = initial_arrays(network.body.base_plan(), 5)
    images = np.random.default_rng(1).normal(size=(5, *COLOUR.shape)).astype(np.float32)
    files = export_network(network, arrays, COLOUR, base)
    features = LoadedModel(files.trunk).run({"image": images})[FEATURES]
    scores = files.head.expected(features)
    expected = own_scores(network, {**base, **arrays}, images)
    assert np.abs(scores - expected).max() <= 1e-4 * max(1.0, np.abs(expected).max())


def test_the_body_alone_gives_the_features_that_a_linear_head_reads() -> None:
    network = build_network("convnet", COLOUR.shape)
    arrays = used(network)
    images = np.random.default_rng(1).normal(size=(5, *COLOUR.shape)).astype(np.float32)
    trunk = LoadedModel(export_network(network, arrays, COLOUR).trunk)
    body = import_backbone(export_body(network, arrays, COLOUR), COLOUR)
    assert body.feature_width == network.width
    (features,) = LoadedModel(body.model).run({"image": images}).values()
    expected = trunk.run({"image": images})[FEATURES]
    np.testing.assert_array_equal(features, expected[:, :-1])
    assert (expected[:, -1] == 1).all()


def test_the_pair_is_packed_like_any_other_model() -> None:
    network = build_network("mlp", COLOUR.shape)
    files = export_network(network, used(network), COLOUR)
    names = tuple(ClassName(name) for name in NAMES)
    assert files.golden == build_golden(files.trunk, COLOUR)
    facts = ModelFacts(1, "rounds", names, ledger_index=4, created_ns=5)
    model = pack_model(Lineage(files.trunk, files.golden, COLOUR), facts, files.head)
    assert model.manifest.feature_width == network.width + 1
    assert model.manifest.parity.agreement == 1


def test_equal_networks_make_equal_files() -> None:
    network = build_network("mlp", COLOUR.shape)
    one, other = (export_network(network, used(network), COLOUR) for _ in range(2))
    assert one.trunk == other.trunk


def test_a_missing_tensor_is_named() -> None:
    network = build_network("mlp", COLOUR.shape)
    arrays = used(network)
    del arrays["linear0.weight"]
    with pytest.raises(ModelFileError, match="linear0\\.weight' is missing"):
        export_network(network, arrays, COLOUR)


def test_another_layout_is_refused() -> None:
    network = build_network("mlp", COLOUR.shape)
    other = COLOUR.model_copy(update={"layout": "NHWC"})
    with pytest.raises(ModelFileError, match="layout"):
        export_network(network, used(network), other)


@pytest.mark.parametrize("shortcut", ["hidden", "input", "none"])
@pytest.mark.torch
def test_an_adapter_with_any_shortcut_gives_its_scores_behind_features(shortcut: Shortcut) -> None:
    network = Network(FeatureAdjustment(40, 24, 16, shortcut), "hidden")
    arrays = used(network)
    features = np.random.default_rng(1).normal(size=(5, 40)).astype(np.float32)
    file = NetworkHead(network, arrays, 40).file(1.0)
    expected = own_scores(network, arrays, features)
    assert np.abs(head_scores(file, features) - expected).max() <= 1e-5 * np.abs(expected).max()
