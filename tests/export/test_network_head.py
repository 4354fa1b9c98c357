"""A network on a backbone's features: the backbone stays a file alone, the network is the head."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import pytest

from fleetledger.export.backbone import import_backbone
from fleetledger.export.errors import ModelFileError, ParityError
from fleetledger.export.frozen import plain_frozen
from fleetledger.export.golden import build_golden
from fleetledger.export.head import DEFAULT_LOGIT_SCALE, head_scores
from fleetledger.export.network_head import NETWORK_RULES, NetworkHead
from fleetledger.export.package import Lineage, ModelFacts, pack_model
from fleetledger.export.runtime import LoadedModel
from fleetledger.export.scaling_backbone import scaling_backbone
from fleetledger.learning.networks.head import HeadKind
from fleetledger.learning.networks.network import Network
from fleetledger.learning.networks.registry import NETWORKS, build_network
from fleetledger.learning.networks.residual_adapter import UP
from fleetledger.schemas.models import FEATURES, PROBABILITIES, SCORES
from fleetledger.schemas.values import ClassName
from tests.export.networks import COLOUR, DIGITS, data, pooled_network
from tests.export.test_network import own_scores

OF_FEATURES = [name for name, known in NETWORKS.items() if known.of_features]
WIDTH = 64
NAMES = tuple(ClassName(name) for name in ("cat", "dog", "owl"))
FACTS = ModelFacts(3, "rounds", NAMES, ledger_index=9, created_ns=5, logit_scale=1.0)


def lineage() -> Lineage:
    frozen = plain_frozen(import_backbone(scaling_backbone(DIGITS), DIGITS).model)
    return Lineage(frozen, build_golden(frozen, DIGITS), DIGITS)


def used(network: Network, width: int = WIDTH) -> NetworkHead:
    """A network as training leaves it: neither statistics nor zeros are those of the beginning."""
    random = np.random.default_rng(3)
    arrays: dict[str, npt.NDArray[Any]] = dict(network.initial(7, NAMES))
    for name, array in arrays.items():
        if name.endswith("running_var"):
            arrays[name] = random.uniform(0.5, 2, array.shape).astype(np.float32)
        elif name.endswith("running_mean") or name == UP:
            arrays[name] = random.normal(0, 0.3, array.shape).astype(np.float32)
    base = {
        plan.name: random.uniform(0.5, 2, plan.shape).astype(np.float32)
        for plan in network.body.base_plan()
    }
    return NetworkHead(network, arrays, width, base)


def features(count: int = 6) -> npt.NDArray[np.float32]:
    return np.random.default_rng(1).normal(size=(count, WIDTH)).astype(np.float32)


@pytest.mark.parametrize("kind", ["linear", "cosine", "hidden"])
@pytest.mark.parametrize("name", ["mlp", *OF_FEATURES])
def test_the_file_gives_the_scores_of_the_network(name: str, kind: HeadKind) -> None:
    head = used(build_network(name, (WIDTH,), kind))
    scores, expected = head_scores(head.file(1.0), features()), head.expected(features())
    assert scores.shape == (6, 3)
    assert np.abs(scores - expected).max() <= 1e-5 * max(1.0, np.abs(expected).max())


@pytest.mark.torch
@pytest.mark.parametrize("kind", ["linear", "cosine", "hidden"])
@pytest.mark.parametrize("name", ["mlp", *OF_FEATURES])
def test_what_is_expected_is_what_torch_computes(name: str, kind: HeadKind) -> None:
    network = build_network(name, (WIDTH,), kind)
    head = used(network)
    torchs = own_scores(network, {**head.base, **head.arrays}, features())
    assert np.abs(head.expected(features()) - torchs).max() <= 1e-5 * max(1, np.abs(torchs).max())


def test_probabilities_are_the_softmax_at_the_scale() -> None:
    found = LoadedModel(used(build_network("mlp", (WIDTH,))).file(3.0)).run({FEATURES: features()})
    powers = np.exp(3.0 * found[SCORES].astype(np.float64))
    shares = powers / powers.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(found[PROBABILITIES], shares, rtol=1e-5, atol=1e-7)


def test_the_frozen_file_is_the_backbone_with_its_output_named_features() -> None:
    backbone = import_backbone(data(pooled_network()), COLOUR)
    images = np.random.default_rng(0).normal(size=(4, *COLOUR.shape)).astype(np.float32)
    (plain,) = LoadedModel(backbone.model).run({"image": images}).values()
    frozen = plain_frozen(backbone.model)
    np.testing.assert_array_equal(LoadedModel(frozen).run({"image": images})[FEATURES], plain)
    assert frozen == plain_frozen(backbone.model)


def test_a_new_version_moves_the_network_alone_and_parity_is_measured() -> None:
    network = build_network("mlp", (WIDTH,), "hidden")
    head = used(network)
    first = pack_model(lineage(), FACTS, head, NETWORK_RULES)
    moved = {name: array + np.float32(0.01) for name, array in head.arrays.items()}
    second = pack_model(lineage(), FACTS, NetworkHead(network, moved, WIDTH), NETWORK_RULES)
    before, after = first.manifest, second.manifest
    assert (before.frozen, before.golden) == (after.frozen, after.golden)
    assert before.head != after.head
    assert before.feature_width == WIDTH
    assert before.class_names == NAMES
    assert 0 < before.parity.max_absolute_difference < 1e-4
    assert (before.parity.agreement, before.parity.samples) == (1.0, 8)


def test_equal_networks_give_equal_bytes_that_old_runtimes_read() -> None:
    one, other = (
        pack_model(lineage(), FACTS, used(build_network("mlp", (WIDTH,))), NETWORK_RULES)
        for _ in range(2)
    )
    assert one == other
    model = onnx.load_model_from_string(one.files[one.manifest.head.digest])
    assert model.ir_version == 9
    assert [entry.version for entry in model.opset_import] == [17]
    assert not model.producer_name


def test_limits_grow_with_the_scores_of_a_network() -> None:
    head = used(build_network("mlp", (WIDTH,)))
    loud = {
        name: array * 1000 if name == "head.weight" else array
        for name, array in head.arrays.items()
    }
    quiet = pack_model(lineage(), FACTS, head, NETWORK_RULES).manifest
    large = pack_model(
        lineage(), FACTS, NetworkHead(head.network, loud, WIDTH), NETWORK_RULES
    ).manifest
    assert large.tolerance > 100 * quiet.tolerance


def test_a_file_that_strays_from_the_network_is_not_exported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    head = used(build_network("mlp", (WIDTH,)))
    other = used(build_network("mlp", (WIDTH,), "cosine")).file(1.0)
    monkeypatch.setattr(NetworkHead, "file", lambda _self, _scale: other)
    with pytest.raises(ParityError, match="max_absolute_difference"):
        pack_model(lineage(), FACTS, head, NETWORK_RULES)


def test_a_network_for_other_features_or_classes_is_refused() -> None:
    network = build_network("mlp", (WIDTH - 1,))
    with pytest.raises(ModelFileError, match=r"features of shape \(64,\) .* takes \(63,\)"):
        pack_model(lineage(), FACTS, used(network, WIDTH - 1), NETWORK_RULES)
    lacking = used(build_network("mlp", (WIDTH,)))
    arrays = {name: lacking.arrays[name] for name in lacking.arrays if name != "linear0.bias"}
    with pytest.raises(ModelFileError, match=r"linear0\.bias' is missing"):
        NetworkHead(lacking.network, arrays, WIDTH).file(DEFAULT_LOGIT_SCALE)
