"""What the self-validating values promise."""

import hashlib
import json
import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from fleetledger.runtime.errors import InvalidValueError
from fleetledger.schemas.message import explain
from fleetledger.schemas.values import (
    BootId,
    ClassName,
    DeviceId,
    Digest,
    FleetId,
    PerClass,
    ValidatedText,
)

GOOD = {
    FleetId: ("a", "harbour-2", "0", "x" * 63),
    DeviceId: ("a", "Crane_7", "0-0", "x" * 64),
    BootId: ("0123456789abcdef",),
    Digest: ("0" * 64, hashlib.sha256(b"").hexdigest()),
    ClassName: ("cat", "ä", "猫", "two words", "a.b", "x" * 100, "نیم\u200cفاصله", "猫" * 85),
}
BAD = {
    FleetId: ("", "-a", "A", "a/b", "a+", "x" * 64, "a\n", "ä", "#"),
    DeviceId: ("", "_a", "a/b", "a b", "+", "#", "x" * 65, "a\n", "ä"),
    BootId: ("", "0123456789ABCDEF", "0123456789abcde", "0123456789abcdef0"),
    Digest: ("", "0" * 63, "0" * 65, "G" * 64, "A" * 64, "0" * 64 + "\n"),
    ClassName: (
        "",
        ".",
        "..",
        ".hidden",
        "a/b",
        "a\\b",
        " a",
        "a ",
        "a\n",
        "a\x00b",
        "a\x85b",
        "a\u2028b",
        "a\u202eb",
        "\ufeffa",
        "half\ud800",
        "x" * 101,
        "猫" * 86,
    ),
}


def cases(table: dict[type[ValidatedText], tuple[str, ...]]) -> list[object]:
    return [pytest.param(kind, text, id=f"{kind.__name__}-{text[:12]!a}")
            for kind, texts in table.items() for text in texts]  # fmt: skip


@pytest.mark.parametrize(("kind", "text"), cases(GOOD))
def test_a_good_text_is_kept_as_it_is(kind: type[ValidatedText], text: str) -> None:
    assert kind(text) == text
    assert TypeAdapter(kind).validate_json(json.dumps(text)) == text


@pytest.mark.parametrize(("kind", "text"), cases(BAD))
def test_a_bad_text_is_refused_with_its_value_and_the_rule(
    kind: type[ValidatedText], text: str
) -> None:
    with pytest.raises(InvalidValueError) as refusal:
        kind(text)
    told = str(refusal.value)
    assert told.startswith(f"{kind.__name__}: ")
    assert repr(text)[:60] in told
    assert kind.rule in told


@pytest.mark.parametrize("value", [None, 7, b"cat", ["cat"], True])
def test_only_text_can_become_a_value(value: object) -> None:
    with pytest.raises(InvalidValueError, match="DeviceId"):
        DeviceId(value)
    with pytest.raises(ValidationError):
        TypeAdapter(DeviceId).validate_python(value)


@pytest.mark.parametrize(("kind", "text"), cases(GOOD) + cases(BAD))
def test_the_published_pattern_agrees_with_the_check(kind: type[ValidatedText], text: str) -> None:
    # `$` of JSON Schema (ECMAScript) is the very end; in Python that is `\Z`.
    pattern = TypeAdapter(kind).json_schema()["pattern"].removesuffix("$") + r"\Z"
    matches = re.search(pattern, text) is not None
    accepted = text in GOOD[kind]
    too_long_in_bytes = kind is ClassName and len(text.encode("utf-8", "replace")) > 255
    assert matches == accepted or too_long_in_bytes


def test_pydantic_reports_a_bad_value_as_the_value_itself_does() -> None:
    with pytest.raises(ValidationError) as refusal:
        TypeAdapter(dict[str, FleetId]).validate_python({"fleet": "Big Fleet"})
    assert explain(refusal.value) == (
        "fleet: 'Big Fleet': FleetId: 'Big Fleet' is not allowed; give "
        "1 to 63 of a-z, 0-9 and '-', beginning with a letter or digit"
    )


def test_a_value_is_written_as_plain_text() -> None:
    written = TypeAdapter(DeviceId).dump_python(DeviceId("crane-7"), mode="json")
    assert type(written) is str


def test_a_long_value_is_shortened_in_the_refusal() -> None:
    with pytest.raises(InvalidValueError) as refusal:
        DeviceId("!" * 10_000)
    assert len(str(refusal.value)) < 300


def test_fresh_boot_ids_differ() -> None:
    assert len({BootId.fresh() for _ in range(50)}) == 50


@given(st.binary())
def test_a_digest_is_the_sha256_of_the_bytes(data: bytes) -> None:
    digest = Digest.of(data)
    assert digest == hashlib.sha256(data).hexdigest()
    assert digest == Digest.of(memoryview(data))
    assert digest.short == digest[:12]


@given(st.text(min_size=1, max_size=120))
def test_a_class_name_is_nfc_and_stays_what_it_is(text: str) -> None:
    try:
        name = ClassName(text)
    except InvalidValueError:
        return
    assert unicodedata.is_normalized("NFC", name)
    assert ClassName(str(name)) == name
    assert ClassName(unicodedata.normalize("NFD", text)) == name
    assert 1 <= len(name) <= 100
    assert len(name.encode("utf-8")) <= 255


def test_a_name_typed_in_two_ways_is_one_class() -> None:
    assert ClassName("caf\u00e9") == ClassName("cafe\u0301")


def test_upper_and_lower_case_are_two_classes() -> None:
    assert ClassName("Cat") != ClassName("cat")


def test_one_class_given_twice_is_refused_and_not_merged() -> None:
    with pytest.raises(ValidationError, match="one entry per class"):
        TypeAdapter(PerClass[int]).validate_python({"caf\u00e9": 3, "cafe\u0301": 4})


def test_text_that_was_checked_before_is_taken_as_it_is() -> None:
    digest = Digest.of(b"data")
    again = Digest.known(str(digest))
    assert again == digest
    assert type(again) is Digest
