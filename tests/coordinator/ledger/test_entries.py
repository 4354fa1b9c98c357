"""One entry, one byte string; rows that do not fit their leaf are never read."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from fleetledger.coordinator.errors import EntryError, LedgerCorruptError
from fleetledger.coordinator.ledger.entries import COLUMNS, MAX_BODY_BYTES, Entry, EntryDraft
from fleetledger.schemas.canonical import canonical_json, parse_json
from fleetledger.schemas.values import DeviceId, Digest

JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=("Cs",)), max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("aeé"), inner, max_size=3)
    ),
    max_leaves=8,
)

ROUND: dict[str, Any] = {}
ROUND["x"] = ROUND
NESTED: dict[str, Any] = {}
for _ in range(40):
    NESTED = {"x": NESTED}


def make(**changes: Any) -> Entry:
    fields: dict[str, Any] = {
        "index": 7,
        "time_ns": 12,
        "kind": "class.named",
        "actor": "operator",
        "device": None,
        "body": {"name": "Katze", "index": 3},
        "blobs": (),
    }
    return Entry(**fields | changes)


@settings(max_examples=100)
@given(st.dictionaries(st.text(st.characters(exclude_categories=("Cs",))), JSON_VALUES, max_size=4))
def test_reading_a_row_gives_the_entry_that_was_written(body: dict[str, Any]) -> None:
    entry = make(body=body, device=DeviceId("a"), blobs=(Digest.of(b"x"), Digest.of(b"y")))
    assert Entry.from_row(entry.to_row()) == entry


def test_the_bytes_are_head_and_body_as_sorted_json() -> None:
    entry = make(body={"b": [1.5, None], "a": "é"}, blobs=(Digest.of(b"x"),))
    head, body = entry.canonical.split(b"\n")
    assert json.loads(head) == {
        "v": 1,
        "index": 7,
        "time_ns": 12,
        "kind": "class.named",
        "actor": "operator",
        "device": None,
        "blobs": [Digest.of(b"x")],
    }
    assert body == '{"a":"é","b":[1.5,null]}'.encode()
    assert entry.leaf_hash == hashlib.sha256(b"\x00" + entry.canonical).digest()


def test_the_bytes_of_an_entry_stay_the_same_from_version_to_version() -> None:
    # Written down when the format was made: a change here makes every old ledger unreadable.
    assert make().leaf_hash.hex() == (
        "d63547ce665bb14464a26b68053625f2d3bd0bb9fdd3913b9fd8967d0546eafa"
    )


@settings(max_examples=60)
@given(
    st.dictionaries(
        st.text(st.characters(exclude_categories=("Cs",))),
        JSON_VALUES | st.tuples(JSON_VALUES) | st.lists(st.lists(st.integers()), min_size=40),
        max_size=2,
    )
)
def test_the_bytes_are_canonical_json_whichever_way_they_are_made(body: dict[str, Any]) -> None:
    entry = make(body=body, actor='O"Brien\\é\u2028')
    head, text = entry.canonical.split(b"\n")
    assert text == canonical_json(body)
    assert entry.body == parse_json(text)
    assert head == canonical_json(parse_json(head))


class Dumped(BaseModel):
    """A body as the coordinator makes it, of whatever a method's settings may hold."""

    settings: dict[str, Any]


@settings(max_examples=100)
@given(
    st.dictionaries(
        st.text(),
        JSON_VALUES
        | st.tuples(JSON_VALUES)
        | st.dictionaries(st.integers(), st.floats())
        | st.text()
        | st.sets(st.integers()),
        max_size=3,
    )
)
def test_a_dumped_body_needs_no_copy(values: dict[str, Any]) -> None:
    draft = EntryDraft("a", "b", Dumped(settings=values).model_dump(mode="json"), plain=True)
    entry, copied = (made_or_refused(item) for item in (draft, draft._replace(plain=False)))
    assert entry == copied
    if isinstance(entry, Entry) and isinstance(copied, Entry):
        assert entry.canonical == copied.canonical
        assert types_within(entry.body) <= {dict, list, str, int, float, bool, type(None)}


def made_or_refused(draft: EntryDraft) -> Entry | str:
    """The entry, or what is said against it."""
    try:
        return Entry.from_draft(draft, 0, 5)
    except EntryError as error:
        return str(error)


def types_within(value: object) -> set[type]:
    members: tuple[object, ...] = ()
    if isinstance(value, dict):
        members = (*value, *value.values())
    elif isinstance(value, list):
        members = tuple(value)
    return {type(value)}.union(*map(types_within, members))


@pytest.mark.parametrize(
    "change",
    [
        {"index": 8},
        {"time_ns": 13},
        {"kind": "class.renamed"},
        {"actor": "coordinator"},
        {"device": DeviceId("a")},
        {"body": {"name": "Katze", "index": 4}},
        {"blobs": (Digest.of(b"x"),)},
    ],
)
def test_every_field_changes_the_leaf(change: dict[str, Any]) -> None:
    assert make(**change).leaf_hash != make().leaf_hash


def test_an_entry_holds_what_will_be_read_back_and_no_reference_to_the_draft() -> None:
    names = ["Katze"]
    entry = Entry.from_draft(EntryDraft("stage.opened", "operator", {"names": (names,)}), 0, 5)
    names.append("Hund")
    assert entry.body == {"names": [["Katze"]]}
    assert entry.time_ns == 5


def test_a_draft_may_bring_its_own_time() -> None:
    assert Entry.from_draft(EntryDraft("a", "b", {}, time_ns=9), 0, 5).time_ns == 9


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"index": -1}, "index: -1 is not allowed; count from 0"),
        ({"time_ns": 1 << 63}, "time_ns: 9223372036854775808 is not allowed"),
        ({"kind": "Class Named"}, "kind: 'Class Named' is not allowed"),
        ({"actor": ""}, "actor: '' is not allowed"),
        ({"actor": "a\nb"}, r"actor: 'a\\nb' is not allowed"),
        ({"body": [1]}, r"body of class.named: \[1\] is not allowed; give a JSON object"),
        ({"body": {"x": float("nan")}}, "body of class.named: .*nan"),
        ({"body": {"x": b"raw"}}, "body of class.named: .*bytes"),
        ({"body": {1: "x"}}, "body of class.named: .*key 1"),
        ({"body": {"x": "\ud800"}}, "body of class.named: .*surrogate"),
        ({"body": NESTED}, "body of class.named: .*deeper than 32 levels"),
        ({"body": ROUND}, "body of class.named: .*deeper than 32 levels"),
        ({"body": [1], "plain": True}, "body of class.named: .* give a JSON object"),
        ({"body": {"x": float("nan")}, "plain": True}, "body of class.named: .*nan"),
        ({"body": {"x": "\ud800"}, "plain": True}, "body of class.named: .*surrogate"),
        ({"body": NESTED, "plain": True}, "body of class.named: .*deeper than 32 levels"),
        ({"actor": "\ud800"}, "actor: .* is not allowed"),
        ({"index": True}, "index: True is not allowed"),
        ({"device": 'a","kind":"x'}, "device: .* is not allowed; give a DeviceId"),
        ({"blobs": ("x",)}, "blobs: 'x' is not allowed; give digests"),
        (
            {"body": {"x": "y" * MAX_BODY_BYTES}},
            f"body of class.named: {MAX_BODY_BYTES + 8} bytes are too many; .* blob",
        ),
    ],
)
def test_what_may_not_be_written_is_refused_by_name(change: dict[str, Any], message: str) -> None:
    with pytest.raises(EntryError, match=message):
        make(**change)


def test_a_body_of_exactly_the_largest_size_is_taken() -> None:
    assert make(body={"x": "y" * (MAX_BODY_BYTES - 8)}).body["x"]


@pytest.mark.parametrize(
    ("column", "value", "field"),
    [
        ("body", '{"index":3, "name":"Katze"}', "body"),
        ("body", '{"index":3,"index":3,"name":"Katze"}', "the row"),
        ("body", "[]", "the row"),
        ("body", None, "the row"),
        ("blobs", "[ ]", "blobs"),
        ("blobs", '["nonsense"]', "the row"),
        ("blobs", "7", "the row"),
        ("device", "not a device", "the row"),
        ("kind", "class.renamed", "leaf"),
        ("time_ns", 11, "leaf"),
        ("time_ns", "12", "the row"),
        ("leaf", b"\x00" * 32, "leaf"),
    ],
)
def test_a_row_that_does_not_fit_is_never_read(column: str, value: object, field: str) -> None:
    row = list(make().to_row())
    row[COLUMNS.index(column)] = value
    with pytest.raises(LedgerCorruptError) as caught:
        Entry.from_row(row)
    assert (caught.value.mismatch.index, caught.value.mismatch.field) == (7, field)
