"""An encoder of token ids goes the whole way that networks of pictures go."""

from pathlib import Path

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
from fleetledger.export.golden import SAMPLES, build_golden, read_golden
from fleetledger.export.noise import noise_inputs, noise_text
from fleetledger.export.package import Lineage, SolvedHead, export_model
from fleetledger.export.preprocessing_file import load_preprocessing, preprocessing_toml
from fleetledger.export.runtime import LoadedModel
from fleetledger.learning.numerics.preprocessing import preprocess
from fleetledger.schemas.text import TextPreprocessing
from fleetledger.schemas.values import ClassName
from tests.export.networks import data, value

LENGTH, WIDTH = 6, 5
TEXT = TextPreprocessing(
    mode="text",
    tokens="characters",
    alphabet='ab "\\\n\x7fé',
    length=LENGTH,
    unknown_id=1,
    input_name="tokens",
)
IDS = TextPreprocessing(
    mode="text", tokens="ids", vocabulary=10, length=LENGTH, input_name="tokens"
)
BYTES = TextPreprocessing(mode="text", tokens="bytes", length=LENGTH, input_name="tokens")
TABLE = np.random.default_rng(4).normal(size=(10, WIDTH)).astype(np.float32)


def encoder(kind: int = TensorProto.INT64, batch: str | int = "N", length: int = LENGTH) -> bytes:
    """The mean of the rows of TABLE that the tokens name."""
    nodes = [
        helper.make_node("Gather", ["table", "tokens"], ["rows"], name="first"),
        helper.make_node("ReduceMean", ["rows"], ["mean"], name="second", axes=[1], keepdims=0),
    ]
    graph = helper.make_graph(
        nodes,
        "encoder",
        [value("tokens", [batch, length], kind)],
        [value("mean", [batch, WIDTH])],
        [numpy_helper.from_array(TABLE, "table")],
    )
    return data(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]))


@pytest.mark.parametrize("spec", [TEXT, IDS, BYTES])
def test_made_up_texts_fill_the_length_with_tokens_that_the_preprocessing_knows(
    spec: TextPreprocessing,
) -> None:
    inputs = noise_inputs(spec, 5)
    assert inputs.shape == (5, LENGTH)
    assert inputs.dtype == np.int64
    assert np.array_equal(inputs, noise_inputs(spec, 5))
    assert len({row.tobytes() for row in inputs}) == 5
    assert spec.tokens == "ids" or not (inputs == spec.pad_id).any()
    assert spec.unknown_id is None or not (inputs == spec.unknown_id).any()


@pytest.mark.parametrize("batch", ["N", 1])
def test_an_encoder_gives_the_features_of_its_table(batch: str | int) -> None:
    backbone = import_backbone(encoder(batch=batch), TEXT)
    frozen = build_frozen(backbone.model, "none")
    golden = read_golden(build_golden(frozen, TEXT, [b"abab", "éé".encode()]))
    assert golden.inputs.dtype == np.int64
    assert golden.inputs.shape == (SAMPLES, LENGTH)
    assert golden.inputs[0].tolist() == [0, 0, 2, 3, 2, 3]
    mean = TABLE[golden.inputs].mean(axis=1)
    expected = np.rint(mean / np.abs(mean).max(axis=1, keepdims=True) * 127)
    assert np.abs(golden.features - expected).max() <= 1


def test_a_model_of_text_passes_the_self_test_of_a_device(tmp_path: Path) -> None:
    matrix = np.random.default_rng(2).integers(-8, 9, (WIDTH, 20)).astype(np.int8)
    frozen = build_frozen(import_backbone(encoder(), TEXT).model, "integer", matrix)
    lineage = Lineage(frozen, build_golden(frozen, TEXT), TEXT)
    solved = SolvedHead(
        version=1,
        method="stsa",
        class_names=(ClassName("a"), ClassName("space")),
        weights=np.random.default_rng(3).normal(size=(2, 20)) / 500,
        ledger_index=3,
        created_ns=0,
    )
    exported = export_model(lineage, solved)
    manifest = exported.manifest
    for digest, content in exported.files.items():
        (tmp_path / digest).write_bytes(content)
    settings = SessionSettings()
    part = Frozen(InferenceSession(tmp_path / manifest.frozen.digest, settings), settings.batch)
    model = InstalledModel(
        manifest, part, InferenceSession(tmp_path / manifest.head.digest, settings)
    )
    own = [preprocess(noise_text(9, TEXT), TEXT)]
    golden, scores = (
        exported.files[reference.digest] for reference in (manifest.golden, manifest.golden_scores)
    )
    self_test(model, golden, scores, own)
    assert model.scores(model.features(own)).shape == (1, 2)


@pytest.mark.parametrize(
    ("model", "pool", "message"),
    [
        (encoder(TensorProto.DOUBLE), False, r"DOUBLE of rank 2 .* INT64 token ids of rank 2"),
        (encoder(length=9), False, r"takes texts of shape \(9\), .*makes \(6,\); set length = 9"),
        (encoder(), True, "pool: the output has the shape"),
    ],
)
def test_what_does_not_fit_is_refused_in_words(model: bytes, pool: bool, message: str) -> None:
    with pytest.raises(ModelFileError, match=message):
        import_backbone(model, TEXT, pool=pool)


def test_ids_of_32_bits_are_taken_as_those_of_64() -> None:
    inputs = {"tokens": noise_inputs(TEXT, 4)}
    narrow, wide = (
        LoadedModel(import_backbone(encoder(kind), TEXT).model).run(inputs)
        for kind in (TensorProto.INT32, TensorProto.INT64)
    )
    for some, others in zip(narrow.values(), wide.values(), strict=True):
        assert np.array_equal(some, others)


@pytest.mark.parametrize("spec", [TEXT, IDS, BYTES])
def test_what_is_written_as_toml_is_read_back_equal(
    tmp_path: Path, spec: TextPreprocessing
) -> None:
    path = tmp_path / "text.toml"
    path.write_text(preprocessing_toml(spec), encoding="utf-8")
    assert load_preprocessing(path) == spec
    as_json = path.with_suffix(".json")
    as_json.write_text(spec.model_dump_json(), encoding="utf-8")
    assert load_preprocessing(as_json) == spec
