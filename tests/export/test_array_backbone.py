"""A network of arrays goes the whole way that networks of pictures go."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from fleetledger.device_agent.models.inference.installed_model import (
    Frozen,
    InferenceSession,
    InstalledModel,
    SessionSettings,
)
from fleetledger.device_agent.models.self_test import self_test
from fleetledger.export.backbone import import_backbone
from fleetledger.export.errors import ModelFileError
from fleetledger.export.frozen import build_frozen
from fleetledger.export.golden import build_golden, read_golden
from fleetledger.export.layers import FeatureChoice, backbone_with_features
from fleetledger.export.model_file import read_model_file
from fleetledger.export.noise import noise_inputs
from fleetledger.export.package import Lineage, SolvedHead, export_model
from fleetledger.export.preprocessing_file import load_preprocessing, preprocessing_toml
from fleetledger.export.runtime import LoadedModel
from fleetledger.learning.numerics.preprocessing import preprocess
from fleetledger.schemas.arrays import ArrayPreprocessing
from fleetledger.schemas.models import Manifest
from fleetledger.schemas.values import ClassName
from tests.export.networks import data, value

CHANNELS, TIME, WIDTH = 3, 8, 5
WINDOW = ArrayPreprocessing(
    mode="array",
    shape=(CHANNELS, TIME),
    mean=(1.0, 2.0, 3.0),
    deviation=(2.0, 1.0, 4.0),
    input_name="window",
)
KERNEL = np.random.default_rng(2).normal(size=(WIDTH, CHANNELS, 3)).astype(np.float32)


def convolution(
    batch: str | int = "N",
    kind: int = TensorProto.FLOAT,
    *,
    pooled: bool = True,
    axes: tuple[int, ...] = (CHANNELS, TIME),
) -> bytes:
    """One 1-D convolution, its ReLU, and the mean over time."""
    nodes = [
        helper.make_node("Conv", ["window", "kernel"], ["map"], name="conv", pads=[1, 1]),
        helper.make_node("Relu", ["map"], ["positive"], name="relu"),
        helper.make_node("ReduceMean", ["positive"], ["mean"], name="mean", axes=[2], keepdims=0),
    ]
    output = value("mean", [batch, WIDTH]) if pooled else value("positive", [batch, WIDTH, TIME])
    kernel = KERNEL.astype(helper.tensor_dtype_to_np_dtype(kind))
    graph = helper.make_graph(
        nodes if pooled else nodes[:2],
        "sensor",
        [value("window", [batch, *axes], kind)],
        [output],
        [numpy_helper.from_array(kernel, "kernel")],
    )
    return data(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]))


def features(windows: np.ndarray) -> np.ndarray:
    """What the network makes of normalised windows (n, c, t), slowly."""
    padded = np.pad(windows.astype(np.float64), ((0, 0), (0, 0), (1, 1)))
    places = [
        np.einsum("nct,wct->nw", padded[:, :, at : at + 3], KERNEL.astype(np.float64))
        for at in range(TIME)
    ]
    return np.maximum(np.stack(places, axis=2), 0).mean(axis=2)


def test_made_up_arrays_are_spread_about_the_mean() -> None:
    inputs = noise_inputs(WINDOW, 50)
    assert inputs.shape == (50, CHANNELS, TIME)
    assert inputs.dtype == np.float32
    assert np.array_equal(inputs, noise_inputs(WINDOW, 50))
    assert np.abs(inputs).max() <= 2
    assert np.abs(inputs.mean(axis=(0, 2))).max() < 0.2


@pytest.mark.parametrize("batch", ["N", 1])
def test_a_one_dimensional_network_gives_its_features(batch: str | int) -> None:
    backbone = import_backbone(convolution(batch), WINDOW)
    assert backbone.feature_width == WIDTH
    golden = read_golden(build_golden(build_frozen(backbone.model, "none"), WINDOW))
    plain = features(golden.inputs)
    expected = np.rint(plain / np.abs(plain).max(axis=1, keepdims=True) * 127)
    assert np.abs(golden.features - expected).max() <= 1


def test_a_map_over_time_is_averaged_where_that_is_asked() -> None:
    with pytest.raises(ModelFileError, match=r"feature map of shape \(5, 8\) per sample; give --p"):
        import_backbone(convolution(pooled=False), WINDOW)
    pooled = import_backbone(convolution(pooled=False), WINDOW, pool=True)
    inputs = noise_inputs(WINDOW, 4)
    found = next(iter(LoadedModel(pooled.model).run({"window": inputs}).values()))
    np.testing.assert_allclose(found, features(inputs), rtol=1e-4, atol=1e-5)


def test_layers_are_averaged_over_time_and_never_mirrored() -> None:
    chosen = backbone_with_features(convolution(), WINDOW, FeatureChoice(("positive",)))
    assert import_backbone(chosen, WINDOW).feature_width == WIDTH
    inputs = noise_inputs(WINDOW, 4)
    expected = features(inputs)
    expected /= np.sqrt((expected**2).mean(axis=1, keepdims=True))
    found = next(iter(LoadedModel(chosen).run({"window": inputs}).values()))
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    with pytest.raises(ModelFileError, match="mirror: true, but the backbone reads arrays"):
        backbone_with_features(convolution(), WINDOW, FeatureChoice(mirror=True))


def rows(width: int, kind: int = TensorProto.FLOAT) -> bytes:
    """A product of a row of numbers with a matrix."""
    weights = np.random.default_rng(3).normal(size=(width, WIDTH))
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["window", "weights"], ["out"])],
        "rows",
        [value("window", ["N", width], kind)],
        [value("out", ["N", WIDTH], kind)],
        [numpy_helper.from_array(weights.astype(helper.tensor_dtype_to_np_dtype(kind)), "weights")],
    )
    return data(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]))


def test_numbers_in_a_row_come_from_windows_and_from_tables() -> None:
    assert import_backbone(rows(CHANNELS * TIME), WINDOW).feature_width == WIDTH
    table = ArrayPreprocessing(mode="array", shape=(7,), input_name="window")
    assert import_backbone(rows(7, TensorProto.DOUBLE), table).feature_width == WIDTH


@pytest.mark.parametrize(
    ("file", "words"),
    [
        (convolution(axes=(CHANNELS, 9)), r"set shape = \[3, 9\]"),
        (convolution(axes=(CHANNELS, 9, 9)), "FLOAT of rank 4 is not supported; export it with"),
        (rows(25), "takes 25 numbers in a row, the preprocessing makes 24; set shape to that of"),
        (rows(CHANNELS * TIME).replace(b"window", b"widnow"), 'set input_name = "widnow"'),
    ],
)
def test_a_network_that_takes_other_arrays_is_refused_with_what_fits(
    file: bytes, words: str
) -> None:
    with pytest.raises(ModelFileError, match=words):
        import_backbone(file, WINDOW)


def test_a_model_of_arrays_passes_the_self_test_of_a_device(tmp_path: Path) -> None:
    frozen = build_frozen(import_backbone(convolution(), WINDOW).model, "none")
    lineage = Lineage(frozen, build_golden(frozen, WINDOW), WINDOW)
    solved = SolvedHead(
        version=1,
        method="stsa",
        class_names=(ClassName("rest"), ClassName("run")),
        weights=np.random.default_rng(3).normal(size=(2, WIDTH)) / 500,
        ledger_index=3,
        created_ns=0,
    )
    exported = export_model(lineage, solved)
    manifest = Manifest.read(exported.manifest.canonical_bytes())
    assert manifest.preprocessing == WINDOW
    for digest, content in exported.files.items():
        (tmp_path / digest).write_bytes(content)
    settings = SessionSettings()
    part = Frozen(InferenceSession(tmp_path / manifest.frozen.digest, settings), settings.batch)
    model = InstalledModel(
        manifest, part, InferenceSession(tmp_path / manifest.head.digest, settings)
    )
    golden, scores = (
        exported.files[reference.digest] for reference in (manifest.golden, manifest.golden_scores)
    )
    own = [preprocess(np.ones((CHANNELS, TIME)), WINDOW)]
    self_test(model, golden, scores, own)
    assert model.scores(model.features(np.stack(own))).shape == (1, 2)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"shape": ()}, "shape"),
        ({"shape": (0,)}, "shape"),
        ({"shape": (1,) * 9}, "shape"),
        ({"shape": (1 << 11, 1 << 11)}, r"4,194,304 numbers; give a sample at most 1,048,576"),
        ({"mean": (1.0, 2.0)}, r"mean: 2 numbers for shape \[3, 8\]; give one, or one for each"),
        ({"deviation": (0.0,)}, "deviation"),
        ({"mean": (float("nan"),)}, "mean"),
    ],
)
def test_a_preprocessing_that_fits_no_array_is_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        ArrayPreprocessing.model_validate({**WINDOW.model_dump(), **changes})


def test_its_description_is_a_file_beside_the_network(tmp_path: Path) -> None:
    path = tmp_path / "sensor.toml"
    path.write_text(preprocessing_toml(WINDOW))
    assert load_preprocessing(path) == WINDOW


@pytest.mark.torch
@pytest.mark.parametrize("dynamo", [True, False])
def test_a_one_dimensional_network_of_torch_comes_in_as_its_exporters_write_it(
    tmp_path: Path, dynamo: bool
) -> None:
    import torch

    torch.manual_seed(1)
    network = torch.nn.Sequential(
        *(torch.nn.Conv1d(CHANNELS, 16, 3, padding=1), torch.nn.BatchNorm1d(16), torch.nn.ReLU()),
        *(torch.nn.Conv1d(16, 24, 3, stride=2), torch.nn.GroupNorm(4, 24), torch.nn.SiLU()),
        *(torch.nn.AdaptiveAvgPool1d(1), torch.nn.Flatten()),
    ).eval()
    path, one = tmp_path / "sensor.onnx", torch.zeros(1, CHANNELS, TIME)
    torch.onnx.export(network, (one,), path, input_names=["window"], dynamo=dynamo)
    backbone = import_backbone(read_model_file(path), WINDOW)
    assert backbone.feature_width == 24
    inputs = noise_inputs(WINDOW, 5)
    found = next(iter(LoadedModel(backbone.model).run({"window": inputs}).values()))
    expected = network(torch.from_numpy(inputs)).detach().numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
