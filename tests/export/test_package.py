"""One version of a model is packed so that a device can check every part of it."""

import io
from dataclasses import replace
from typing import Any

import numpy as np
import onnxruntime
import pytest
import safetensors.numpy
from PIL import Image

from fleetledger.export.backbone import import_backbone
from fleetledger.export.errors import ModelFileError, ParityError
from fleetledger.export.frozen import build_frozen
from fleetledger.export.golden import build_golden, read_golden
from fleetledger.export.head import RowsHead, build_head
from fleetledger.export.package import ExportRules, Lineage, SolvedHead, export_model
from fleetledger.export.parity import measure_parity, require_parity
from fleetledger.export.scaling_backbone import scaling_backbone
from fleetledger.learning.numerics.preprocessing import preprocess
from fleetledger.schemas.models import Manifest
from fleetledger.schemas.values import ClassName, Digest
from tests.export.networks import DIGITS

WIDTH = 40


def lineage(seed: int = 0) -> Lineage:
    backbone = import_backbone(scaling_backbone(DIGITS), DIGITS)
    matrix = np.random.default_rng(seed).integers(-2, 3, (64, WIDTH))
    frozen = build_frozen(backbone.model, "integer", matrix)
    return Lineage(frozen, build_golden(frozen, DIGITS), DIGITS)


def solved(**changes: Any) -> SolvedHead:
    names = tuple(ClassName(name) for name in ("zero", "one", "two"))
    weights = np.random.default_rng(4).normal(size=(3, WIDTH)) / 1000
    head = SolvedHead(2, "stsa", names, weights, ledger_index=17, created_ns=5)
    return replace(head, **changes)


def test_the_manifest_pins_every_file_by_its_digest() -> None:
    exported = export_model(lineage(), solved())
    manifest = exported.manifest
    assert {file.digest for file in manifest.files} == set(exported.files)
    for file in manifest.files:
        content = exported.files[file.digest]
        assert (Digest.of(content), len(content)) == (file.digest, file.size)
    assert manifest.lineage == manifest.frozen.digest
    assert manifest.class_names == ("zero", "one", "two")
    assert (manifest.feature_width, manifest.ledger_index) == (WIDTH, 17)
    assert Manifest.read(manifest.canonical_bytes()) == manifest


def test_a_device_can_repeat_the_golden_batch_with_the_manifest_alone() -> None:
    exported = export_model(lineage(), solved())
    manifest, files = exported.manifest, exported.files
    golden = safetensors.numpy.load(files[manifest.golden.digest])
    expected = safetensors.numpy.load(files[manifest.golden_scores.digest])["scores"]
    frozen, head = (
        onnxruntime.InferenceSession(files[file.digest], providers=["CPUExecutionProvider"])
        for file in (manifest.frozen, manifest.head)
    )
    inputs = golden["inputs"]
    assert inputs.shape == (8, *manifest.preprocessing.shape)
    features = frozen.run(["features"], {manifest.preprocessing.input_name: inputs})[0]
    scores = head.run(["scores"], {"features": features})[0]
    assert np.array_equal(features, golden["features"])
    assert np.abs(scores - expected).max() <= manifest.tolerance


def test_equal_arguments_give_equal_bytes() -> None:
    first, second = export_model(lineage(), solved()), export_model(lineage(), solved())
    assert first.manifest.digest == second.manifest.digest
    assert first.files == second.files


def test_a_new_class_moves_the_head_and_its_golden_scores_only() -> None:
    before = export_model(lineage(), solved()).manifest
    grown = solved(
        class_names=(*solved().class_names, ClassName("three")),
        weights=np.ones((4, WIDTH)) / 1000,
        version=3,
    )
    after = export_model(lineage(), grown).manifest
    assert (before.frozen, before.golden) == (after.frozen, after.golden)
    assert before.head != after.head
    assert before.golden_scores != after.golden_scores


def test_parity_is_the_largest_difference_and_the_share_of_equal_winners() -> None:
    weights = np.array([[1.0, 0.0], [0.0, 1.0]])
    swapped = build_head(np.array([[1.0, 0.0], [0.0, 3.0]]))
    features = np.array([[4, 1], [3, 2], [1, 4], [5, 0]], np.float32)
    parity = measure_parity(swapped, RowsHead(weights), features)
    assert parity.max_absolute_difference == 8.0
    assert parity.agreement == 0.75
    assert parity.samples == 4
    assert parity.runtime.startswith("onnxruntime ")
    with pytest.raises(ParityError, match=r"max_absolute_difference: 8 on 4 samples exceeds 0.001"):
        require_parity(parity)


def test_parity_of_an_honest_export_is_within_float32() -> None:
    extra = np.random.default_rng(8).integers(0, 128, (50, WIDTH)).astype(np.float32)
    parity = export_model(lineage(), solved(), extra_features=extra).manifest.parity
    assert parity.samples == 58
    assert parity.agreement == 1.0
    assert 0 < parity.max_absolute_difference < 1e-6


def test_weights_that_float32_cannot_hold_closely_enough_are_not_exported() -> None:
    near = np.ones((3, WIDTH)) * 1e6 + np.random.default_rng(1).normal(size=(3, WIDTH))
    with pytest.raises(ParityError, match="max_absolute_difference"):
        export_model(lineage(), solved(weights=near), ExportRules(device_tolerance=100.0))


def test_a_golden_batch_of_another_frozen_model_is_refused_before_devices_do_so() -> None:
    mixed = replace(lineage(), golden=lineage(seed=9).golden)
    with pytest.raises(ParityError, match="golden scores: the pair strays"):
        export_model(mixed, solved())


def test_weights_that_fit_neither_names_nor_features_are_refused() -> None:
    with pytest.raises(ModelFileError, match=r"\(2, 40\) for 3 class names; give a row"):
        export_model(lineage(), solved(weights=np.ones((2, WIDTH))))
    with pytest.raises(ModelFileError, match=r"takes \(41,\)"):
        export_model(lineage(), solved(weights=np.ones((3, WIDTH + 1))))


def test_a_golden_batch_uses_given_pictures_first_and_makes_up_the_rest() -> None:
    frozen = lineage().frozen
    picture = Image.fromarray(np.arange(64, dtype=np.uint8).reshape(8, 8))
    stream = io.BytesIO()
    picture.save(stream, "PNG")
    golden = read_golden(build_golden(frozen, DIGITS, [stream.getvalue(), picture]))
    made_up = read_golden(lineage().golden)
    assert np.array_equal(golden.inputs[0], preprocess(picture, DIGITS))
    assert np.array_equal(golden.inputs[1], golden.inputs[0])
    assert np.array_equal(golden.inputs[2:], made_up.inputs[2:])
    assert len(np.unique(made_up.features, axis=0)) == 8


def test_bytes_that_are_no_golden_batch_are_refused() -> None:
    with pytest.raises(ModelFileError, match="golden: no golden batch"):
        read_golden(b"nothing")
    with pytest.raises(ModelFileError, match="golden: no golden batch"):
        read_golden(safetensors.numpy.save({"inputs": np.zeros(3)}))
    torn = {"inputs": np.zeros((3, 2)), "features": np.zeros((4, 2))}
    with pytest.raises(ModelFileError, match="do not belong together"):
        read_golden(safetensors.numpy.save(torn))
