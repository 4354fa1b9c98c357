"""Variants have another backbone before the very same map, and equal images give equal files."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from onnx import ModelProto, TensorProto

from fleetledger.device_agent.models.model_rules.onnx_file import check_onnx
from fleetledger.export.errors import ModelFileError
from fleetledger.export.frozen import build_frozen
from fleetledger.export.runtime import LoadedModel
from fleetledger.export.scaling_backbone import scaling_backbone
from fleetledger.export.variants.feature_distance import strays
from fleetledger.export.variants.quantisation import FLOAT_CONVOLUTIONS
from fleetledger.export.variants.split import split_frozen
from fleetledger.export.variants.variant_maker import made_variants
from fleetledger.schemas.models import FEATURES
from fleetledger.schemas.values import Digest
from fleetledger.schemas.variants import VARIANT_NAMES, VariantName
from tests.device_agent.making import GREY_8
from tests.device_agent.models import variant_models
from tests.export.networks import load

EACH = pytest.mark.parametrize("name", VARIANT_NAMES)


def map_of(frozen: bytes) -> list[bytes]:
    """All that stands behind the backbone, byte for byte."""
    split = split_frozen(frozen)
    parts = (*split.nodes, *split.constants, split.output)
    return [bytes(part.SerializeToString(deterministic=True)) for part in parts]


def convolutions(model: ModelProto) -> list[bool]:
    """Of each convolution, in order, whether its weights are 8-bit integers."""
    made = {name: node for node in model.graph.node for name in node.output}
    kinds = {item.name: item.data_type for item in model.graph.initializer}
    found = []
    for node in model.graph.node:
        if node.op_type == "Conv":
            weights = made.get(node.input[1])
            stored = node.input[1] if weights is None else weights.input[0]
            found.append(kinds[stored] == TensorProto.INT8)
    return found


@EACH
def test_the_map_stays_bit_for_bit(name: VariantName) -> None:
    reference, variant = variant_models.frozen(), variant_models.variants()[name]
    assert variant != reference
    assert map_of(variant) == map_of(reference)
    assert len(map_of(reference)) > 10


@EACH
def test_what_comes_out_are_integers_near_those_of_the_reference(name: VariantName) -> None:
    pictures = {"input": variant_models.samples(500, 40)}
    expected = LoadedModel(variant_models.frozen()).run(pictures)[FEATURES]
    found = LoadedModel(variant_models.variants()[name]).run(pictures)[FEATURES]
    assert found.dtype == np.float32
    assert np.array_equal(found, np.rint(found))
    assert 0 < strays(found, expected) < {"fp16": 0.01, "int8": 0.2}[name]


def test_the_backbone_has_fewer_bits_but_for_the_first_convolutions() -> None:
    made = variant_models.variants()
    floats = [item for item in load(made["fp16"]).graph.initializer if "backbone/" in item.name]
    assert {item.data_type for item in floats} == {TensorProto.FLOAT16}
    quantised = convolutions(load(made["int8"]))
    assert quantised == [False] * FLOAT_CONVOLUTIONS + [True, True]


@EACH
def test_a_devices_rules_let_it_pass(name: VariantName, tmp_path: Path) -> None:
    file = tmp_path / "variant.onnx"
    file.write_bytes(variant_models.variants()[name])
    (value,) = check_onnx(file, frozenset()).outputs
    assert (value.name, value.axes) == (FEATURES, (None, variant_models.COLUMNS))


def test_equal_images_give_equal_bytes_in_another_process_too() -> None:
    script = (
        "from tests.device_agent.models import variant_models as m;"
        "from fleetledger.schemas.values import Digest;"
        "print(*(Digest.of(item) for item in m.variants().values()))"
    )
    again = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=300
    )
    assert again.stdout.split() == [Digest.of(item) for item in variant_models.variants().values()]


def test_other_images_give_another_int8_and_the_same_fp16() -> None:
    other = made_variants(variant_models.frozen(), "input", variant_models.samples(300, 40))
    assert other["fp16"] == variant_models.variants()["fp16"]
    assert other["int8"] != variant_models.variants()["int8"]


def test_a_backbone_of_an_old_opset_is_converted() -> None:
    old = variant_models.frozen(11)
    made = made_variants(old, "input", variant_models.samples(0, 40), ["int8"])["int8"]
    assert map_of(made) == map_of(old)
    assert any(convolutions(load(made)))


def test_a_network_of_products_alone_can_be_halved_and_quantised() -> None:
    pixels = build_frozen(scaling_backbone(GREY_8), "none")
    made = made_variants(pixels, "input", variant_models.samples(0, 40))
    assert map_of(made["int8"]) == map_of(made["fp16"]) == map_of(pixels)


def test_a_file_without_a_map_of_ours_is_refused_in_words() -> None:
    with pytest.raises(ModelFileError, match="nothing that could stay exact"):
        split_frozen(scaling_backbone(GREY_8))
