"""What the schema of text preprocessing promises, and that pictures' stays as it was."""

import re
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from fleetledger.runtime.errors import SchemaError
from fleetledger.schemas.canonical import canonical_json
from fleetledger.schemas.message import explain
from fleetledger.schemas.models import (
    AnyPreprocessing,
    Manifest,
    Preprocessing,
    of_networks,
    of_pictures,
)
from fleetledger.schemas.text import TextPreprocessing
from tests.schemas.test_models import manifest_fields, photographs

EITHER: TypeAdapter[Any] = TypeAdapter(AnyPreprocessing)


def characters(**changes: Any) -> dict[str, Any]:
    fields = {
        "mode": "text",
        "tokens": "characters",
        "alphabet": "ab \n",
        "length": 5,
        "unknown_id": 1,
        "input_name": "tokens",
    }
    return {name: value for name, value in {**fields, **changes}.items() if value is not None}


def ids(**changes: Any) -> dict[str, Any]:
    return characters(
        tokens="ids", alphabet=None, unknown_id=None, vocabulary=30522, length=128, **changes
    )


def test_a_text_has_the_shape_of_its_tokens() -> None:
    assert TextPreprocessing.model_validate(characters()).shape == (5,)


def test_the_mode_says_which_preprocessing_it_is() -> None:
    assert isinstance(EITHER.validate_python(photographs()), Preprocessing)
    assert isinstance(EITHER.validate_python(characters()), TextPreprocessing)


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        (photographs(mode="CMYK"), "mode: 'CMYK': "),
        (photographs(size=[8, 0]), r"size\.1: 0: "),
        (characters(length=0), "length: 0: "),
        ({}, "mode: is missing; give it"),
    ],
)
def test_a_fault_is_told_by_the_field_that_the_file_has(fields: dict[str, Any], told: str) -> None:
    with pytest.raises(ValidationError) as refused:
        EITHER.validate_python(fields)
    assert re.match(told, explain(refused.value))


def test_a_manifest_of_text_reads_back_from_its_canonical_bytes() -> None:
    text = TextPreprocessing.model_validate(characters())
    manifest = Manifest(**manifest_fields(preprocessing=text))
    assert Manifest.read(manifest.canonical_bytes()) == manifest


def test_a_manifest_of_pictures_has_the_bytes_that_it_had_before_there_was_text() -> None:
    """The fields are spelled out here, so that a new one would be seen."""
    dumped = Manifest(**manifest_fields()).model_dump(mode="json")["preprocessing"]
    assert canonical_json(dumped) == (
        b'{"deviation":[0.229,0.224,0.225],"divide_by":255,"dtype":"float32","input_name":"image",'
        b'"interpolation":"bilinear","layout":"NCHW","mean":[0.485,0.456,0.406],"mode":"RGB",'
        b'"resize":"stretch","shorter_side":null,"size":[112,112]}'
    )


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (characters(alphabet=""), "alphabet: 0 characters .* need it"),
        (characters(alphabet="aba"), "alphabet: a character stands twice"),
        (characters(alphabet="a\ud800"), "alphabet"),
        (characters(tokens="bytes"), "alphabet: 4 characters with tokens 'bytes'"),
        (characters(vocabulary=9), "vocabulary: given with tokens 'characters'"),
        (characters(unknown_id=0), "unknown_id: 0 is pad_id too"),
        (characters(tokens="bytes", alphabet=None), "unknown_id: given with tokens 'bytes'"),
        (characters(length=0), "length"),
        (characters(length=8193), "length"),
        (characters(pad_id=-1), "pad_id"),
        (characters(dtype="int32"), "dtype"),
        (characters(size=[8, 8]), "size"),
        (ids() | {"vocabulary": None}, "vocabulary: missing with tokens 'ids'"),
        (ids(pad_id=30522), "pad_id: 30522 is no id of a vocabulary of 30522"),
    ],
)
def test_wrong_fields_are_refused_by_name(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        TextPreprocessing.model_validate(fields)


def test_networks_that_are_trained_on_pictures_refuse_text_in_words() -> None:
    pictures = Preprocessing.model_validate(photographs())
    assert of_pictures(pictures) is pictures
    text = TextPreprocessing.model_validate(characters())
    with pytest.raises(SchemaError, match=r"preprocessing\.mode: 'text', .* pictures alone"):
        of_pictures(text)
    with pytest.raises(SchemaError, match=r"preprocessing\.mode: 'text', .* frozen encoder"):
        of_networks(text)
