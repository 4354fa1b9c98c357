"""What the schemas of models promise."""

import json
from typing import Any

import pytest
from pydantic import ValidationError

from fleetledger.runtime.errors import SchemaError
from fleetledger.schemas.file_reference import FileReference
from fleetledger.schemas.models import DesiredModel, Manifest, ModelStatus, Parity, Preprocessing
from fleetledger.schemas.offers import Offer
from fleetledger.schemas.values import Digest


def photographs(**changes: Any) -> dict[str, Any]:
    fields = {
        "mode": "RGB",
        "size": [112, 112],
        "mean": [0.485, 0.456, 0.406],
        "deviation": [0.229, 0.224, 0.225],
        "input_name": "image",
    }
    return {**fields, **changes}


def manifest_fields(**changes: Any) -> dict[str, Any]:
    frozen = FileReference.of(b"frozen")
    fields = {
        "version": 3,
        "method": "stsa",
        "lineage": frozen.digest,
        "frozen": frozen,
        "head": FileReference.of(b"head"),
        "golden": FileReference.of(b"golden"),
        "golden_scores": FileReference.of(b"scores"),
        "class_names": ("zero", "caf\u00e9"),
        "feature_width": 1250,
        "logit_scale": 10.0,
        "preprocessing": Preprocessing.model_validate(photographs()),
        "parity": Parity(
            max_absolute_difference=1e-6, agreement=1.0, samples=8, runtime="onnxruntime 1.23.2"
        ),
        "tolerance": 0.05,
        "ledger_index": 41,
        "created_ns": 1_700_000_000_000_000_000,
    }
    return {**fields, **changes}


def test_a_manifest_reads_back_from_its_canonical_bytes() -> None:
    manifest = Manifest(**manifest_fields())
    assert Manifest.read(manifest.canonical_bytes()) == manifest
    assert manifest.digest == Digest.of(manifest.canonical_bytes())


def test_equal_manifests_have_equal_bytes_however_their_fields_were_given() -> None:
    fields = manifest_fields()
    backwards = dict(reversed(list(fields.items())))
    assert Manifest(**fields).digest == Manifest(**backwards).digest


def test_a_manifest_in_another_spelling_is_refused_so_that_its_digest_is_unambiguous() -> None:
    manifest = Manifest(**manifest_fields())
    spaced = json.dumps(json.loads(manifest.canonical_bytes()), indent=1).encode()
    with pytest.raises(SchemaError, match="canonical"):
        Manifest.read(spaced)


def test_only_a_model_of_pixels_says_what_it_answers_for() -> None:
    whole = Manifest(**manifest_fields())
    assert "answers" not in json.loads(whole.canonical_bytes()), "manifests of before stay theirs"
    pixels = Manifest(**manifest_fields(answers="pixels", class_names=("background", "cat")))
    assert json.loads(pixels.canonical_bytes())["answers"] == "pixels"
    assert Manifest.read(pixels.canonical_bytes()) == pixels


def int8(**changes: Any) -> dict[str, Any]:
    return {
        "name": "int8",
        "frozen": FileReference.of(b"int8"),
        "samples": 400,
        "agreement": 0.97,
        "tolerance": 0.08,
        "feature_tolerance": 0.2,
        **changes,
    }


def test_a_manifest_without_variants_is_the_one_that_it_was_before_there_were_any() -> None:
    manifest = Manifest(**manifest_fields())
    assert "variants" not in json.loads(manifest.canonical_bytes())
    assert manifest.digest == "f4c2de33dbdef1c4cdc5c69e44e999a161f5a41035e761023057bf8549086cda"
    assert manifest.files_with("int8") == manifest.files


def test_a_variant_stands_in_the_place_of_the_frozen_file() -> None:
    manifest = Manifest(**manifest_fields(variants=(int8(),)))
    assert Manifest.read(manifest.canonical_bytes()) == manifest
    frozen, *others = manifest.files_with("int8")
    assert frozen == FileReference.of(b"int8")
    assert others == list(manifest.files[1:])
    assert manifest.files_with("fp16") == manifest.files_with(None) == manifest.files
    assert manifest.lineage == manifest.frozen.digest, "the lineage is that of the reference"
    with pytest.raises(ValidationError, match="variants: a name stands twice"):
        Manifest(**manifest_fields(variants=(int8(), int8(samples=7))))
    with pytest.raises(ValidationError, match="variants"):
        Manifest(**manifest_fields(variants=(int8(name="int4"),)))


def test_a_manifest_has_a_place_for_a_signature_that_is_still_empty() -> None:
    values = json.loads(Manifest(**manifest_fields()).canonical_bytes())
    assert values["key"] is None
    assert values["signature"] is None
    with pytest.raises(ValidationError, match="signature"):
        Manifest(**manifest_fields(signature="abc"))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"lineage": Digest.of(b"other")}, "lineage: .* named by its frozen file"),
        ({"class_names": ("zero", "zero")}, "class_names: a name stands twice"),
        ({"class_names": ()}, "class_names"),
        ({"feature_width": 0}, "feature_width"),
        ({"logit_scale": float("inf")}, "logit_scale"),
        ({"tolerance": 0.0}, "tolerance"),
        ({"version": 0}, "version"),
        ({"schema_version": 2}, "schema_version"),
        ({"answers": "pixels"}, "'zero' comes first, but a model of pixels has 'background' there"),
        ({"surprise": 1}, "surprise"),
    ],
)
def test_a_wrong_manifest_is_refused_with_the_name_of_the_field(
    changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValidationError, match=message):
        Manifest(**manifest_fields(**changes))


def test_bytes_that_are_no_manifest_are_refused() -> None:
    with pytest.raises(SchemaError, match="JSON"):
        Manifest.read(b"\xff")
    with pytest.raises(SchemaError, match=r"manifest: .*version"):
        Manifest.read(b"{}")
    with pytest.raises(SchemaError, match="exceed"):
        Manifest.read(b" " * (5 * 1024**2))


def test_preprocessing_tells_the_shape_of_its_result() -> None:
    assert Preprocessing.model_validate(photographs()).shape == (3, 112, 112)
    assert Preprocessing.model_validate(photographs(layout="NHWC")).shape == (112, 112, 3)
    digits = photographs(mode="L", size=[8, 6], mean=[0.0], deviation=[1.0])
    assert Preprocessing.model_validate(digits).shape == (1, 8, 6)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"mode": "CMYK"}, "mode"),
        ({"mode": "L"}, "mean: 3 numbers for mode 'L'; give one per channel, 1"),
        ({"deviation": [1.0, 0.0, 1.0]}, "deviation"),
        ({"mean": [0.0, float("nan"), 0.0]}, "mean"),
        ({"size": [0, 8]}, "size"),
        ({"size": [8, 100_000]}, "size"),
        ({"divide_by": 128}, "divide_by"),
        ({"shorter_side": 128}, "shorter_side: has no meaning"),
        ({"resize": "shorter_side_crop"}, "shorter_side: None does not cover .* at least 112"),
        ({"resize": "shorter_side_crop", "shorter_side": 100}, "shorter_side: 100"),
        ({"input_name": ""}, "input_name"),
        ({"dtype": "int8"}, "dtype"),
        ({"crop": 3}, "crop"),
    ],
)
def test_wrong_preprocessing_is_refused_with_the_name_of_the_field(
    changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValidationError, match=message):
        Preprocessing.model_validate(photographs(**changes))


def test_a_desired_model_and_its_status_read_back_from_their_bodies() -> None:
    offer = Offer(digest=Digest.of(b"a"), size=1, list_digest=Digest.of(b"b"))
    desired = DesiredModel(action=9, version=3, manifest=offer, files=(offer,), reason="operator")
    assert DesiredModel.read(desired.model_dump(mode="json")) == desired
    status = ModelStatus(
        version=3, manifest=offer.digest, state="rolled_back", reason="score", previous_version=2
    )
    assert ModelStatus.read(status.model_dump(mode="json")) == status


def test_an_unknown_state_of_a_model_is_refused() -> None:
    body = {"version": 3, "manifest": Digest.of(b"a"), "state": "confused"}
    with pytest.raises(SchemaError, match=r"model\.status: state: 'confused'"):
        ModelStatus.read(body)
