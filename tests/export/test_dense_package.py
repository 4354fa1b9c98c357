"""A version of a dense network is packed so that a device can check every part of it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import safetensors.numpy

from fleetledger.export import package, parity
from fleetledger.export.errors import ModelFileError, ParityError
from fleetledger.export.golden import build_dense_golden, read_dense_golden
from fleetledger.export.network_head import NETWORK_RULES
from fleetledger.export.package import ExportedModel, Lineage, ModelFacts, pack_model
from fleetledger.export.parity import measure_parity, require_parity
from fleetledger.export.runtime import LoadedModel
from fleetledger.export.segmentation import DenseHead, SegmentationFiles, export_segmentation
from fleetledger.learning.networks.segmentation.registry import build_segmentation
from fleetledger.schemas.models import (
    BACKGROUND,
    FEATURES,
    GOLDEN_INPUTS,
    SCORES,
    SMALL_SCORES,
    Manifest,
    Preprocessing,
)
from fleetledger.schemas.values import ClassName, Digest
from tests.learning.networks.segmentation.reference import NAMES, SMALL_DEEPLAB, used

SCENES = Preprocessing(
    mode="RGB", size=(36, 44), mean=(0.0,) * 3, deviation=(0.5,) * 3, input_name="image"
)
SMALL = build_segmentation("small_dense", SCENES.shape)
FACTS = ModelFacts(
    version=3,
    method="fbl",
    class_names=(ClassName(BACKGROUND), *map(ClassName, NAMES)),
    ledger_index=11,
    created_ns=5,
    logit_scale=1.0,
)


def files(network=SMALL) -> SegmentationFiles:
    return export_segmentation(network, used(network), SCENES)


def lineage(trunk: bytes) -> Lineage:
    return Lineage(trunk, build_dense_golden(SCENES), SCENES)


def packed(made: SegmentationFiles, facts: ModelFacts = FACTS) -> ExportedModel:
    return pack_model(lineage(made.trunk), facts, made.head, NETWORK_RULES)


def pictures(count: int) -> np.ndarray:
    return np.random.default_rng(1).normal(size=(count, *SCENES.shape)).astype(np.float32)


def test_the_manifest_says_that_pixels_are_answered_and_names_the_background_first() -> None:
    model = packed(files())
    manifest = Manifest.read(model.manifest.canonical_bytes())
    assert manifest == model.manifest
    assert manifest.answers == "pixels"
    assert manifest.class_names == (BACKGROUND, *NAMES)
    assert manifest.feature_width == SMALL.width
    assert (manifest.version, manifest.method, manifest.logit_scale) == (3, "fbl", 1.0)
    assert manifest.lineage == manifest.frozen.digest
    assert set(model.files) == {file.digest for file in manifest.files}
    assert all(Digest.of(data) == digest for digest, data in model.files.items())


def test_the_golden_batch_is_two_pictures_and_the_small_scores_that_the_pair_gives_them() -> None:
    model = packed(files())
    golden = safetensors.numpy.load(model.files[model.manifest.golden.digest])
    scores = safetensors.numpy.load(model.files[model.manifest.golden_scores.digest])
    assert set(golden) == {GOLDEN_INPUTS}
    assert golden[GOLDEN_INPUTS].shape == (2, *SCENES.shape)
    trunk = LoadedModel(model.files[model.manifest.frozen.digest])
    features = trunk.run({"image": golden[GOLDEN_INPUTS]})[FEATURES]
    found = LoadedModel(model.files[model.manifest.head.digest]).run({FEATURES: features})
    assert set(scores) == {SMALL_SCORES}
    assert scores[SMALL_SCORES].shape == (2, 4, 18, 22)
    assert np.abs(found[SMALL_SCORES] - scores[SMALL_SCORES]).max() < 1e-5


def test_all_versions_of_all_networks_have_one_golden_batch() -> None:
    assert build_dense_golden(SCENES) == build_dense_golden(SCENES)
    one, other = packed(files()), packed(files(SMALL_DEEPLAB))
    assert one.manifest.golden == other.manifest.golden
    assert one.manifest.golden_scores != other.manifest.golden_scores


def test_equal_weights_give_equal_bytes() -> None:
    one, other = packed(files()), packed(files())
    assert one.manifest.canonical_bytes() == other.manifest.canonical_bytes()
    assert one.files == other.files


@pytest.mark.parametrize("count", [1, 3])
def test_the_packed_files_give_every_pixel_the_heads_formula(count: int) -> None:
    made = files()
    model = packed(made)
    features = LoadedModel(model.files[model.manifest.frozen.digest]).run(
        {"image": pictures(count)}
    )[FEATURES]
    found = LoadedModel(model.files[model.manifest.head.digest]).run({FEATURES: features})[SCORES]
    assert found.shape == (count, 4, *SCENES.size)
    np.testing.assert_allclose(found, made.head.expected(features), atol=1e-4)


def test_a_picture_of_another_size_is_refused_in_words() -> None:
    model = packed(files())
    trunk = LoadedModel(model.files[model.manifest.frozen.digest])
    with pytest.raises(ModelFileError, match=r"(?s)cannot run it: .*image.* index: 2 Got: 40"):
        trunk.run({"image": np.zeros((1, 3, 40, 44), np.float32)})


def test_parity_counts_pixels_and_is_that_of_the_whole_arrays() -> None:
    made = files(SMALL_DEEPLAB)
    features = LoadedModel(made.trunk).run({"image": pictures(2)})[FEATURES]
    other = replace(made.head, weight=made.head.weight[::-1])
    for head in (made.head, other):
        measured = measure_parity(head.file(), made.head, features)
        found = LoadedModel(head.file()).run({FEATURES: features})
        expected = made.head.expected(features)
        same = found[SCORES].argmax(axis=1) == expected.argmax(axis=1)
        apart = np.abs(found[SMALL_SCORES] - made.head.expected_small(features)).max()
        largest = max(apart, np.abs(found[SCORES] - expected).max())
        assert measured.samples == 2 * 36 * 44
        assert measured.agreement == pytest.approx(same.mean(), abs=1e-12)
        assert measured.max_absolute_difference == pytest.approx(largest, abs=1e-12)
    assert measure_parity(made.head.file(), made.head, features).agreement > 0.999


def test_a_head_whose_file_strays_from_its_formula_does_not_leave() -> None:
    made = files()
    features = LoadedModel(made.trunk).run({"image": pictures(1)})[FEATURES]
    other = replace(made.head, bias=made.head.bias + np.float32(0.01))
    with pytest.raises(ParityError):
        require_parity(measure_parity(other.file(), made.head, features), 1e-3)


def test_a_resizing_that_strays_is_seen_though_the_small_scores_fit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = files()
    monkeypatch.setattr(parity, "resized", lambda maps, size: np.zeros(size))
    with pytest.raises(ParityError):
        packed(made)


def test_tolerances_grow_with_the_largest_score() -> None:
    made = files()
    plain = packed(made).manifest.tolerance
    larger = DenseHead(made.head.weight * 1000, made.head.bias * 1000, made.head.small, SCENES.size)
    assert packed(replace(made, head=larger)).manifest.tolerance > 10 * plain


def test_a_trunk_that_gives_another_answer_alone_does_not_leave(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made, honest = files(), package.frozen_features
    monkeypatch.setattr(
        package,
        "frozen_features",
        lambda model, name, inputs: honest(model, name, inputs) * len(inputs),
    )
    with pytest.raises(ParityError, match="golden scores"):
        packed(made)


def test_a_background_alone_is_a_model() -> None:
    made = export_segmentation(SMALL, SMALL.initial(1, ()), SCENES)
    model = packed(made, replace(FACTS, class_names=(ClassName(BACKGROUND),)))
    assert model.manifest.class_names == (BACKGROUND,)
    assert model.manifest.parity.agreement == 1


@pytest.mark.parametrize(
    ("names", "why"),
    [
        (("background", "cat", "dog"), "for 3 class names; give a row"),
        (("cat", "dog", "owl", "background"), "'background' to the first"),
        (("background", "cat", "cat", "owl"), "its own name"),
        (("background", "cat", "dog", "background"), "its own name"),
    ],
)
def test_names_that_are_not_those_of_the_rows_are_refused(names, why: str) -> None:
    with pytest.raises(ModelFileError, match=why):
        packed(files(), replace(FACTS, class_names=tuple(map(ClassName, names))))


def test_a_trunk_of_another_network_is_refused() -> None:
    mixed = SegmentationFiles(files(SMALL_DEEPLAB).trunk, files().head)
    with pytest.raises(ModelFileError, match=r"features of shape \(8, 5, 6\) for a sample"):
        packed(mixed)


def test_weights_too_large_for_scores_are_refused() -> None:
    made = files()
    weight = np.full_like(made.head.weight, 3e38)
    with pytest.raises(ModelFileError, match="too large for float32"):
        packed(replace(made, head=replace(made.head, weight=weight)))


def test_a_golden_batch_of_other_pictures_is_refused() -> None:
    smaller = SCENES.model_copy(update={"size": (16, 16)})
    with pytest.raises(ModelFileError, match=r"golden: .* are no pictures of shape"):
        read_dense_golden(build_dense_golden(smaller), SCENES)
    with pytest.raises(ModelFileError, match="no golden batch"):
        read_dense_golden(b"text", SCENES)
    empty = safetensors.numpy.save({GOLDEN_INPUTS: np.zeros((0, *SCENES.shape), np.float32)})
    with pytest.raises(ModelFileError, match="are no pictures"):
        read_dense_golden(empty, SCENES)
