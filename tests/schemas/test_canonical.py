"""What canonical JSON promises."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetledger.runtime.errors import SchemaError
from fleetledger.schemas.canonical import MAX_DEPTH, canonical_json, parse_json, read_canonical

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
NUMBERS = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)


def nested(levels: int) -> Any:
    value: Any = 0
    for _ in range(levels):
        value = [value]
    return value


@given(JSON)
def test_what_is_written_reads_back(value: Any) -> None:
    assert parse_json(canonical_json(value)) == value


@given(JSON)
def test_what_is_read_is_written_again_to_the_same_bytes(value: Any) -> None:
    data = canonical_json(value)
    assert canonical_json(parse_json(data)) == data


@given(st.dictionaries(TEXT, NUMBERS, max_size=6), st.randoms())
def test_the_order_of_keys_does_not_matter(value: dict[str, Any], random: Any) -> None:
    pairs = list(value.items())
    random.shuffle(pairs)
    assert canonical_json(dict(pairs)) == canonical_json(value)


def test_keys_are_sorted_without_spaces_and_unescaped() -> None:
    assert canonical_json({"b": [1, 2.5], "a": "é\n"}) == '{"a":"é\\n","b":[1,2.5]}'.encode()


def test_tuples_are_written_as_lists() -> None:
    assert canonical_json((1, (2,))) == b"[1,[2]]"


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_a_number_that_is_none_cannot_be_written(number: float) -> None:
    with pytest.raises(SchemaError, match=f"{number} is no number; send finite numbers"):
        canonical_json({"mean": [number]})


@pytest.mark.parametrize("text", [b"NaN", b"[Infinity]", b'{"a":-Infinity}', b"1e999", b"[-1e999]"])
def test_a_number_that_is_none_cannot_be_read(text: bytes) -> None:
    with pytest.raises(SchemaError, match="number"):
        parse_json(text)


@pytest.mark.parametrize(
    "text", [b"", b"{", b"{'a':1}", b"\xff", b"[1,]", b"1 2", b"\xef\xbb\xbf1", b"9" * 5000]
)
def test_what_is_not_json_is_refused(text: bytes) -> None:
    with pytest.raises(SchemaError, match="not valid JSON: "):
        parse_json(text)


def test_a_key_given_twice_is_named() -> None:
    with pytest.raises(SchemaError, match="'stage' is given twice"):
        parse_json(b'{"stage":1,"part":2,"stage":3}')


@pytest.mark.parametrize("value", [{1: "a"}, {None: 1}, {"a": {True: 1}}])
def test_a_key_that_is_not_text_is_refused(value: Any) -> None:
    with pytest.raises(SchemaError, match="is not text; write it as text"):
        canonical_json(value)


@pytest.mark.parametrize("value", [b"bytes", {1, 2}, object(), [complex(1)]])
def test_what_json_does_not_know_is_refused(value: Any) -> None:
    with pytest.raises(SchemaError, match="not representable"):
        canonical_json(value)


@pytest.mark.parametrize("text", [b'"\\ud800"', b'{"\\udfff":1}', b'["a\\ud800b"]'])
def test_half_a_surrogate_pair_is_refused(text: bytes) -> None:
    with pytest.raises(SchemaError, match="half a surrogate pair"):
        parse_json(text)
    with pytest.raises(SchemaError, match="half a surrogate pair"):
        canonical_json(json.loads(text))


def test_nesting_ends_at_the_stated_depth() -> None:
    deepest = nested(MAX_DEPTH)
    assert parse_json(canonical_json(deepest)) == deepest
    with pytest.raises(SchemaError, match=f"deeper than {MAX_DEPTH} levels; send a flatter"):
        canonical_json([deepest])
    with pytest.raises(SchemaError, match=f"deeper than {MAX_DEPTH} levels; send a flatter"):
        parse_json(json.dumps([deepest]).encode())


@pytest.mark.parametrize("opening", [b"[", b'{"a":'])
def test_absurd_nesting_is_refused_and_not_a_crash(opening: bytes) -> None:
    with pytest.raises(SchemaError):
        parse_json(opening * 20_000)
    closing = b"]" if opening == b"[" else b"}"
    with pytest.raises(SchemaError, match="nested deeper"):
        parse_json(opening * 20_000 + b"1" + closing * 20_000)


def test_a_list_that_holds_itself_is_refused() -> None:
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(SchemaError, match="nested deeper"):
        canonical_json(endless)


def slowly_read(data: bytes, most_values: int | None = None) -> tuple[Any, bool]:
    """What `read_canonical` gives: read with every check, written again, compared."""
    value = parse_json(data, most_values)
    return value, canonical_json(value) == data


def told(read: Any, *given: Any) -> object:
    try:
        return repr(read(*given))
    except SchemaError as error:
        return str(error)


PIECES = st.sampled_from(
    [
        b" ",
        b",",
        b"[",
        b"]",
        b"{",
        b"}",
        b'"',
        b"\\",
        b"0",
        b"e5",
        b"1e999",
        b"NaN",
        b"-0",
        b"1.0",
        b"1e16",
        b"\\u00e9",
        b"\\ud800",
        b'"a":1,',
        b"null",
        b"\n",
        b"\xff",
        b"\xc3\xa9",
        b"{}" * 33,
        b"[" * 33,
        b"9" * 5000,
    ]
)


@given(
    JSON, st.lists(st.tuples(st.floats(0, 1), PIECES), max_size=2), st.none() | st.integers(0, 9)
)
def test_canonical_bytes_are_told_from_others_as_by_writing_them_again(
    value: Any, put_in: list[tuple[float, bytes]], most_values: int | None
) -> None:
    data = canonical_json(value)
    for place, piece in put_in:
        at = round(place * len(data))
        data = data[:at] + piece + data[at:]
    assert told(read_canonical, data, most_values) == told(slowly_read, data, most_values)


@pytest.mark.parametrize(
    "text",
    [
        '{"a":1,"a":1}',
        '{"b":1,"a":1}',
        '{"a": 1}',
        '"\\u00e9"',
        "1e5",
        "-0",
        "1E400",
        '"\\ud800"',
        "[Infinity]",
        '{"a":{"a":1,"a":1}}',
    ],
)
def test_no_other_text_of_a_value_is_canonical(text: str) -> None:
    assert told(read_canonical, text.encode()) == told(slowly_read, text.encode())
    assert not told(read_canonical, text.encode()).endswith("True)")


@pytest.mark.parametrize("levels", [MAX_DEPTH, MAX_DEPTH + 1, 5000])
def test_canonical_bytes_may_be_nested_as_deep_as_others(levels: int) -> None:
    data = b"[" * levels + b"]" * levels
    assert told(read_canonical, data) == told(slowly_read, data)


@pytest.mark.parametrize("key", [1, None, True, 1.5])
@pytest.mark.parametrize("wrap", [lambda v: v, lambda v: {"a": [v]}, lambda v: [0, {"b": v}]])
def test_a_key_that_json_would_turn_into_text_is_refused_wherever_it_is(
    key: Any, wrap: Any
) -> None:
    with pytest.raises(SchemaError, match=f"the key {key} is not text"):
        canonical_json(wrap({key: 1}))
