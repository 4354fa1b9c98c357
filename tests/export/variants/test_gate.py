"""A variant that loses too much behind a head is left out of its model, with the figures."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fleetledger.export.errors import ModelFileError
from fleetledger.export.package import export_model
from fleetledger.export.variants.feature_distance import VariantFeatures
from fleetledger.export.variants.gate import HeadToJudge, judge, told
from fleetledger.schemas.models import Manifest
from fleetledger.schemas.values import Digest
from tests.device_agent import model_files as models
from tests.device_agent.models import variant_models


def disturbed(wrong: int, names: tuple[str, ...] | None = None) -> VariantFeatures:
    """Features of which int8's are another class's for the first `wrong` of 120 samples."""
    features = variant_models.measured()
    int8 = features.reference.copy()
    int8[:wrong] = features.reference[np.arange(wrong) + 1]
    variants = {"fp16": features.reference, "int8": int8}
    return replace(features, variants=variants, class_names=names or features.class_names)


def test_the_manifest_pins_variants_with_what_they_lose() -> None:
    exported = variant_models.exported()
    manifest = exported.manifest
    assert [variant.name for variant in manifest.variants] == ["fp16", "int8"]
    assert exported.left_out == ()
    for variant in manifest.variants:
        assert variant.frozen.digest == Digest.of(variant_models.variants()[variant.name])
        assert variant.samples == 120
        assert variant.accuracy_lost == pytest.approx(0)
        assert variant.tolerance >= manifest.tolerance
    assert Manifest.read(manifest.canonical_bytes()) == manifest


def test_a_variant_that_loses_more_than_a_point_is_left_out_with_its_figures() -> None:
    # Two of 120 samples are 1.67 points.
    exported = export_model(variant_models.lineage(disturbed(2)), variant_models.solved())
    assert [variant.name for variant in exported.manifest.variants] == ["fp16"]
    (reason,) = exported.left_out
    assert reason == (
        "int8 is left out: it has the reference's best class for 98.3% of 120 samples, and loses "
        "1.67 points of accuracy; at most 1 may be lost. Calibrate it on more images like those of "
        "the devices"
    )


def test_one_sample_of_120_is_less_than_a_point_and_more_than_fp16_may_lose() -> None:
    features = disturbed(1)
    both = replace(features, variants=dict.fromkeys(("fp16", "int8"), features.variants["int8"]))
    exported = export_model(variant_models.lineage(both), variant_models.solved())
    assert [variant.name for variant in exported.manifest.variants] == ["int8"]
    assert "fp16 is left out" in exported.left_out[0]
    assert "at most 0.2 may be lost" in exported.left_out[0]


def test_without_known_classes_what_counts_is_agreement_with_the_reference() -> None:
    strangers = ("somebody",) * 120
    exported = export_model(
        variant_models.lineage(disturbed(2, strangers)), variant_models.solved()
    )
    assert "of classes that nobody named" in exported.left_out[0]
    (fp16,) = exported.manifest.variants
    assert (fp16.accuracy_lost, fp16.agreement) == (None, 1.0)
    assert "accuracy_lost" not in fp16.model_dump(mode="json")


def test_what_a_variant_gains_is_told_as_that() -> None:
    (variant, _) = variant_models.exported().manifest.variants
    better = variant.model_copy(update={"accuracy_lost": -0.005})
    assert told(better).endswith("gains 0.50 points of accuracy")


def test_a_gate_on_too_few_samples_is_refused() -> None:
    features = variant_models.measured()
    few = replace(features, reference=features.reference[:99])
    exported = variant_models.exported()
    head = HeadToJudge(exported.files[exported.manifest.head.digest], models.CLASSES, 0.05)
    with pytest.raises(ModelFileError, match="99 samples to measure on; at least 100"):
        judge(variant_models.files(), few, head, None)  # type: ignore[arg-type] - not reached


def test_features_are_read_as_they_were_written_a_byte_each() -> None:
    features = variant_models.measured()
    written = features.file()
    read = VariantFeatures.read(written)
    assert np.array_equal(read.reference, features.reference)
    assert read.class_names == features.class_names
    for name, expected in features.variants.items():
        assert np.array_equal(read.variants[name], expected)
        assert np.array_equal(read.golden[name], features.golden[name])
    numbers = 3 * features.reference.size + 2 * 8 * variant_models.COLUMNS
    assert numbers < len(written) < numbers + 3000
    with pytest.raises(ModelFileError, match="make the variants again"):
        VariantFeatures.read(written[:100])
