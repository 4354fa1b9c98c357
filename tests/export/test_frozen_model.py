"""The frozen model computes exactly the integer features that the numerics define."""

from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper

from fleetledger.export.backbone import import_backbone
from fleetledger.export.errors import ModelFileError
from fleetledger.export.frozen import build_frozen
from fleetledger.export.noise import noise_inputs
from fleetledger.export.scaling_backbone import scaling_backbone
from fleetledger.learning.numerics.integer_features import project_integer, quantise_features
from fleetledger.schemas.models import Preprocessing
from tests.export.networks import COLOUR, DIGITS, WIDTH, data, load, pooled_network, value
from tests.export.networks import network as make_network
from tests.export.reference import slow_project, slow_quantise

WIDE = Preprocessing(
    mode="L", size=(1, 5), divide_by=1, mean=(0.0,), deviation=(1.0,), input_name="image"
)


def run(model: bytes, inputs: np.ndarray) -> np.ndarray:
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    return session.run(["features"], {"image": inputs.astype(np.float32)})[0]


def digits_backbone(**changes: Any) -> bytes:
    return import_backbone(scaling_backbone(DIGITS, **changes), DIGITS).model


def samples(count: int, width: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(count, width)).astype(np.float32)


def integer_map(rows: int, columns: int, largest: int = 3) -> np.ndarray:
    return np.random.default_rng(5).integers(-largest, largest + 1, (rows, columns))


@pytest.mark.parametrize("feature_bits", [7, 8])
@pytest.mark.parametrize("entries", ["int8", "int64"])
def test_the_integer_map_equals_the_slow_reference_bit_for_bit(
    feature_bits: int, entries: str
) -> None:
    matrix = integer_map(64, 30).astype(entries)
    frozen = build_frozen(digits_backbone(), "integer", matrix, feature_bits=feature_bits)
    pixels = samples(12, 64).reshape(12, 1, 8, 8)
    features = run(frozen, pixels)
    expected = slow_project(slow_quantise(pixels.reshape(12, 64)), matrix, feature_bits)
    assert features.dtype == np.float32
    assert np.array_equal(features, np.array(expected))
    assert features.max() == 2**feature_bits - 1


@pytest.mark.parametrize("feature_bits", [7, 8])
@pytest.mark.parametrize("largest", [3, 2**18])
def test_the_integer_map_equals_the_numpy_numerics_bit_for_bit(
    feature_bits: int, largest: int
) -> None:
    matrix = integer_map(64, 300, largest).astype(np.int32)
    scales = 10.0 ** np.random.default_rng(7).integers(-30, 30, (200, 1))
    pixels = (samples(200, 64, seed=6) * scales).astype(np.float32)
    pixels[17] = 0
    frozen = build_frozen(digits_backbone(), "integer", matrix, feature_bits=feature_bits)
    expected = project_integer(quantise_features(pixels), matrix, feature_bits)
    assert np.array_equal(run(frozen, pixels.reshape(-1, 1, 8, 8)), expected)


def test_ties_of_both_roundings_fall_as_in_the_reference() -> None:
    backbone = import_backbone(scaling_backbone(WIDE), WIDE).model
    # 127 as the largest magnitude makes every half an exact tie of the first rounding.
    pixels = np.array([[127, 0.5, 1.5, -2.5, 3.5], [127, -126.5, 63.5, 0, 64.5]], np.float32)
    plain = run(build_frozen(backbone, "none"), pixels.reshape(2, 1, 1, 5))
    assert plain[0].tolist() == [127, 0, 2, -2, 4]
    # Products 2, 1 and 3: 127 / 2 = 63.5 is a tie of the second, and goes up.
    matrix = np.zeros((5, 3), np.int8)
    matrix[0] = [4, 2, 1]
    features = run(build_frozen(backbone, "integer", matrix), pixels.reshape(2, 1, 1, 5))
    assert features[0].tolist() == [127, 64, 32]


def test_samples_without_any_signal_give_zeros_and_no_nan() -> None:
    matrix = integer_map(64, 9)
    pixels = np.zeros((2, 1, 8, 8))
    pixels[1] = -1e-40  # subnormal: too small to divide by in careless arithmetic
    for kind, used in (("integer", matrix), ("none", None), ("gaussian", matrix / 2)):
        features = run(build_frozen(digits_backbone(), kind, used), pixels)  # type: ignore[arg-type]
        assert not features[0].any()
        assert np.isfinite(features).all()


def test_a_sample_that_the_map_sends_below_zero_gives_zeros() -> None:
    matrix = -np.ones((64, 3), np.int8)
    features = run(build_frozen(digits_backbone(), "integer", matrix), np.ones((1, 1, 8, 8)))
    assert features.tolist() == [[0, 0, 0]]


def test_sums_beyond_float32_stay_exact() -> None:
    matrix = integer_map(64, 20, largest=2**20).astype(np.int32)
    pixels = samples(6, 64).reshape(6, 1, 8, 8)
    expected = slow_project(slow_quantise(pixels.reshape(6, 64)), matrix, 8)
    frozen = build_frozen(digits_backbone(), "integer", matrix, feature_bits=8)
    assert np.array_equal(run(frozen, pixels), np.array(expected))


@pytest.mark.parametrize("largest", [127, 128, 200])
def test_entries_at_the_edge_of_a_byte_are_stored_whole(largest: int) -> None:
    matrix = np.full((64, 2), largest, np.int64)
    matrix[:, 1] = np.arange(64) - 40
    pixels = np.abs(samples(3, 64)).reshape(3, 1, 8, 8)
    expected = slow_project(slow_quantise(pixels.reshape(3, 64)), matrix, 7)
    assert np.array_equal(run(build_frozen(digits_backbone(), "integer", matrix), pixels), expected)


def test_without_a_map_the_quantised_features_come_out() -> None:
    pixels = samples(5, 64).reshape(5, 1, 8, 8)
    features = run(build_frozen(digits_backbone(), "none"), pixels)
    assert np.array_equal(features, np.array(slow_quantise(pixels.reshape(5, 64))))


def test_the_gaussian_map_is_the_papers_and_is_not_rounded() -> None:
    matrix = samples(64, 30, seed=3)
    pixels = samples(5, 64).reshape(5, 1, 8, 8)
    features = run(build_frozen(digits_backbone(), "gaussian", matrix), pixels)
    expected = np.maximum(pixels.reshape(5, 64).astype(np.float64) @ matrix, 0)
    np.testing.assert_allclose(features, expected, atol=1e-4)


@pytest.mark.parametrize("opset", [11, 17, 18, 20])
def test_the_frozen_model_follows_the_backbones_opset(opset: int) -> None:
    original = data(pooled_network(opset=opset))
    backbone = import_backbone(original, COLOUR)
    matrix = integer_map(WIDTH, 11)
    frozen = build_frozen(backbone.model, "integer", matrix)
    inputs = noise_inputs(COLOUR, 4)
    session = onnxruntime.InferenceSession(backbone.model, providers=["CPUExecutionProvider"])
    raw = session.run(None, {"image": inputs})[0]
    assert np.array_equal(run(frozen, inputs), slow_project(slow_quantise(raw), matrix, 7))
    assert load(frozen).ir_version <= 10
    assert load(frozen).opset_import[0].version == opset


def test_a_backbone_that_uses_our_names_does_not_clash() -> None:
    nodes = [
        helper.make_node("Abs", ["image"], ["features"], name="map/abs_0"),
        helper.make_node("Flatten", ["features"], ["map/zero"], name="map/abs_0_output"),
    ]
    model = make_network((nodes, []), value("map/zero", ["N", 360]), None)
    backbone = import_backbone(data(model), COLOUR).model
    inputs = noise_inputs(COLOUR, 2)
    expected = slow_quantise(np.abs(inputs.reshape(2, -1)))
    assert np.array_equal(run(build_frozen(backbone, "none"), inputs), expected)


def test_equal_arguments_give_equal_bytes_and_another_map_gives_others() -> None:
    matrix = integer_map(64, 30)
    first = build_frozen(digits_backbone(), "integer", matrix)
    assert first == build_frozen(digits_backbone(), "integer", matrix.copy())
    assert first != build_frozen(digits_backbone(), "integer", matrix + 1)


def test_the_map_is_stored_in_one_byte_an_entry() -> None:
    frozen = build_frozen(digits_backbone(), "integer", integer_map(64, 1000))
    assert len(frozen) < 64 * 1000 + 4000
    stored = {tensor.name: tensor.data_type for tensor in load(frozen).graph.initializer}
    assert stored["map/matrix"] == TensorProto.INT8


@pytest.mark.parametrize(
    ("kind", "matrix", "bits", "message"),
    [
        ("fourier", None, 7, "map: 'fourier' is unknown"),
        ("integer", None, 7, "matrix: missing with map 'integer'"),
        ("none", np.ones((64, 2), np.int8), 7, "matrix: given with map 'none'"),
        ("integer", np.ones((63, 2), np.int8), 7, r"matrix: shape \(63, 2\) .* give \(64, M\)"),
        ("integer", np.ones((64, 0), np.int8), 7, r"matrix: shape \(64, 0\)"),
        ("integer", np.ones((64, 2)), 7, "matrix: float64 for an integer map"),
        ("integer", np.ones((64, 2), np.int8), 9, "feature_bits: 9 .* 7 or 8"),
        ("integer", np.full((64, 2), 2**50), 7, "not exact in float64; use smaller"),
        ("gaussian", np.full((64, 2), np.nan), 7, "matrix: NaN"),
    ],
)
def test_a_map_that_does_not_fit_is_refused(
    kind: Any, matrix: np.ndarray | None, bits: int, message: str
) -> None:
    with pytest.raises(ModelFileError, match=message):
        build_frozen(digits_backbone(), kind, matrix, feature_bits=bits)
