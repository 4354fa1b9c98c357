"""Tensor files: the law of the codec, one form, and refusals that name tensor and way out."""

import json
import pickle
from collections.abc import Callable
from typing import ClassVar

import numpy as np
import pytest
import safetensors.numpy
import zstandard
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from fleetledger.runtime.errors import SchemaError
from fleetledger.schemas.bitpacking import PackedIntegers
from fleetledger.schemas.errors import TensorError
from fleetledger.schemas.message import Message
from fleetledger.schemas.tensor_header import DTYPES
from fleetledger.schemas.tensors import Expected, UpTo, decode_tensors, encode_tensors, read_tensors
from fleetledger.schemas.zstd_frames import framed

LIMIT = 1 << 20
EXPECTED = {"a": Expected("float32", (3, 2)), "b": Expected("packed", (UpTo(5),))}


def example() -> dict[str, np.ndarray | PackedIntegers]:
    return {
        "a": np.array([[1, 2], [3, 4], [5, 6]], np.float32),
        "b": PackedIntegers.pack(np.array([-3, 0, 3]), 3),
    }


def plain(tensors: dict[str, np.ndarray | PackedIntegers]) -> bytes:
    return encode_tensors(tensors, {"note": "x"})


def changed_header(data: bytes, change: Callable[[dict], None]) -> bytes:
    end = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:end])
    change(header)
    text = json.dumps(header, sort_keys=True, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + data[end:]


@st.composite
def tensors(draw: st.DrawFn) -> dict[str, np.ndarray]:
    names = draw(st.lists(st.text("abc_.", min_size=1, max_size=4), unique=True, max_size=4))
    finite = {"allow_nan": False, "allow_infinity": False}
    return {
        name: draw(
            npst.arrays(
                dtype := draw(st.sampled_from(sorted(DTYPES))),
                npst.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3),
                elements=finite if dtype.startswith("float") else None,
            )
        )
        for name in names
    }


@given(tensors(), st.dictionaries(st.text(max_size=5), st.integers(), max_size=3))
def test_decoding_undoes_encoding(given_tensors, metadata):
    expected = {name: Expected(v.dtype.name, v.shape) for name, v in given_tensors.items()}
    read = read_tensors(encode_tensors(given_tensors, metadata), expected, LIMIT)
    assert read.metadata == metadata
    assert read.tensors.keys() == given_tensors.keys()
    for name, value in given_tensors.items():
        assert read.tensors[name].dtype == value.dtype
        assert np.array_equal(read.tensors[name], value)


def test_packed_integers_come_back_as_int64():
    decoded = decode_tensors(encode_tensors(example()), EXPECTED, LIMIT)
    assert decoded["b"].dtype == np.int64
    assert decoded["b"].tolist() == [-3, 0, 3]


def test_the_same_tensors_give_the_same_bytes_in_any_order_and_layout():
    one = encode_tensors(example(), {"x": 1, "y": 2})
    values = example()
    values["a"] = np.asfortranarray(values["a"]).astype(">f4")
    other = encode_tensors(dict(reversed(values.items())), {"y": 2, "x": 1})
    assert one == other


def test_other_programs_can_open_the_file():
    opened = safetensors.numpy.load(plain(example()))
    assert opened["a"].tolist() == [[1, 2], [3, 4], [5, 6]]
    assert opened["b"].dtype == np.uint8


def test_nothing_is_compressed():
    zeros = {"x": np.zeros(5000, np.uint8)}
    assert len(encode_tensors(zeros)) > 5000


def test_a_frame_of_before_is_read_as_its_body():
    frame = framed(encode_tensors({"x": np.zeros(5000, np.uint8)}))
    assert frame is not None
    decoded = decode_tensors(frame, {"x": Expected("uint8", (5000,))}, LIMIT)
    assert not decoded["x"].any()


def test_a_frame_that_declares_too_much_is_refused_before_it_is_decompressed():
    bomb = zstandard.ZstdCompressor().compress(bytes(50 << 20))
    with pytest.raises(TensorError, match=f"size: {50 << 20} bytes; at most {LIMIT}"):
        decode_tensors(bomb, EXPECTED, LIMIT)


def test_a_frame_that_does_not_declare_its_size_is_refused():
    frame = zstandard.ZstdCompressor(write_content_size=False).compress(encode_tensors(example()))
    with pytest.raises(TensorError, match="declare its size"):
        decode_tensors(frame, EXPECTED, LIMIT)


@pytest.mark.parametrize("mend", [lambda f: f[:-3], lambda f: f + b"\0", lambda f: f[:4] + b"\xff"])
def test_a_torn_frame_or_bytes_after_it_are_refused(mend):
    frame = framed(encode_tensors({"x": np.zeros(5000, np.uint8)}))
    assert frame is not None
    with pytest.raises(TensorError, match="cannot be decompressed"):
        decode_tensors(mend(frame), {"x": Expected("uint8", (5000,))}, LIMIT)


def test_a_plain_body_above_the_limit_is_refused():
    with pytest.raises(TensorError, match="at most 100 are accepted"):
        decode_tensors(plain(example()), EXPECTED, 100)


@given(st.integers(0, 10_000), st.integers(0, 7))
def test_a_flipped_bit_or_a_cut_never_gives_more_than_an_error(position, bit):
    data = bytearray(plain(example()))
    data[position % len(data)] ^= 1 << bit
    for broken in (bytes(data), bytes(data[: position % len(data)])):
        try:
            decoded = decode_tensors(broken, EXPECTED, LIMIT)
        except TensorError:
            continue
        assert np.isfinite(decoded["a"]).all()


def test_trailing_and_missing_bytes_are_refused():
    data = plain(example())
    for broken in (data + b"\0", data[:-1]):
        with pytest.raises(TensorError, match="where the header tells of"):
            decode_tensors(broken, EXPECTED, LIMIT)


def test_a_header_longer_than_the_body_is_refused():
    with pytest.raises(TensorError, match="header: 4294967295 bytes in a body of 24"):
        decode_tensors((2**32 - 1).to_bytes(8, "little") + bytes(16), EXPECTED, LIMIT)


def test_pickled_data_is_refused():
    with pytest.raises(TensorError, match="give a whole tensor file"):
        decode_tensors(pickle.dumps(example()["a"]), EXPECTED, LIMIT)


def test_pickled_objects_cannot_be_encoded():
    with pytest.raises(TensorError, match="dtype object cannot travel"):
        encode_tensors({"a": np.array([{}])})


def test_unknown_and_missing_tensors_are_named():
    data = encode_tensors(example())
    with pytest.raises(TensorError, match="b: unknown tensor; give only a"):
        decode_tensors(data, {"a": EXPECTED["a"]}, LIMIT)
    with pytest.raises(TensorError, match=r"c: is missing; give int64 \(1\)"):
        decode_tensors(data, {**EXPECTED, "c": Expected("int64", (1,))}, LIMIT)


@pytest.mark.parametrize(
    "rule",
    [
        Expected("float64", (3, 2)),
        Expected("float32", (2, 3)),
        Expected("float32", (UpTo(2), 2)),
        Expected("float32", (3, 2, 1)),
        Expected("packed", (3, 2)),
    ],
)
def test_another_dtype_or_shape_is_named_with_what_is_expected(rule):
    with pytest.raises(TensorError, match=r"a: float32 \(3, 2\) does not fit; give"):
        decode_tensors(encode_tensors(example()), {**EXPECTED, "a": rule}, LIMIT)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_nan_and_infinity_are_refused_on_both_sides(bad):
    values = example()
    data = bytearray(plain(values))
    at = data.find(np.float32(6).tobytes())
    data[at : at + 4] = np.float32(bad).tobytes()
    with pytest.raises(TensorError, match=r"a: holds -?(nan|inf) \(1 value not finite\)"):
        decode_tensors(bytes(data), EXPECTED, LIMIT)
    values["a"][0, 0] = bad
    with pytest.raises(TensorError, match="give finite numbers"):
        encode_tensors(values)


@pytest.mark.parametrize(
    "change",
    [
        lambda header: header["a"].update(data_offsets=[0, 20]),
        lambda header: header["a"].update(comment="x"),
        lambda header: header["b"].update(data_offsets=[0, 2]),
        lambda header: header.pop("__metadata__"),
        lambda header: header["a"].update(dtype="BF16"),
        lambda header: header["a"].update(shape=[3, -2]),
        lambda header: header["a"].update(shape=[3, True]),
        lambda header: header.update(c=5),
        lambda header: header["__metadata__"].update(fleetledger="{}"),
        lambda header: header["__metadata__"].update(fleetledger="[" * 2000),
    ],
)
def test_a_header_in_any_other_form_is_refused(change):
    with pytest.raises(TensorError):
        decode_tensors(changed_header(plain(example()), change), EXPECTED, LIMIT)


@pytest.mark.parametrize("field", ["bits", "shape", "signed"])
def test_a_packing_that_does_not_fit_the_bytes_is_refused(field):
    def change(header: dict) -> None:
        ours = json.loads(header["__metadata__"]["fleetledger"])
        ours["packed"]["b"][field] = {"bits": 20, "shape": [2**40], "signed": 1}[field]
        text = json.dumps(ours, sort_keys=True, separators=(",", ":"))
        header["__metadata__"]["fleetledger"] = text

    with pytest.raises(TensorError, match="b: "):
        decode_tensors(changed_header(plain(example()), change), EXPECTED, LIMIT)


def test_spare_bits_of_a_packed_tensor_are_named():
    data = bytearray(plain(example()))
    data[-1] |= 1
    with pytest.raises(TensorError, match="b: data: the last 7 bits are spare"):
        decode_tensors(bytes(data), EXPECTED, LIMIT)


def test_a_tensor_may_not_take_the_name_of_the_metadata():
    with pytest.raises(TensorError, match="name"):
        encode_tensors({"__metadata__": np.zeros(1)})


def test_what_is_expected_may_depend_on_the_metadata():
    kinds = {"short": {"x": Expected("int8", (1,))}, "long": {"x": Expected("int8", (3,))}}
    data = encode_tensors({"x": np.zeros(3, np.int8)}, {"kind": "long"})
    assert read_tensors(data, lambda told: kinds[told["kind"]], LIMIT).tensors["x"].shape == (3,)
    wrong = encode_tensors({"x": np.zeros(3, np.int8)}, {"kind": "short"})
    with pytest.raises(TensorError, match="x: int8"):
        read_tensors(wrong, lambda told: kinds[told["kind"]], LIMIT)


def test_files_with_equal_headers_share_one_and_no_tensor():
    one, other = example(), example()
    other["a"] = one["a"] + 1
    first, second = (read_tensors(plain(given), EXPECTED, LIMIT) for given in (one, other))
    assert first.header is second.header
    first.tensors["a"][:] = 0
    assert np.array_equal(second.tensors["a"], other["a"])
    assert np.array_equal(decode_tensors(plain(one), EXPECTED, LIMIT)["a"], one["a"])


def test_a_header_that_was_read_lets_no_other_body_pass():
    data = plain(example())
    decode_tensors(data, EXPECTED, LIMIT)
    for wrong in (data[:-1], data + b"x"):
        with pytest.raises(TensorError, match="send the whole file and nothing after it"):
            decode_tensors(wrong, EXPECTED, LIMIT)


class Note(Message):
    kind: ClassVar[str] = "note"
    note: str


def test_metadata_are_read_as_a_model_once_for_equal_headers():
    first, second = (read_tensors(plain(example()), EXPECTED, LIMIT).header for _ in range(2))
    assert first.read(Note) == Note(note="x")
    assert second.read(Note) is first.read(Note)
    other = read_tensors(encode_tensors(example(), {"note": 1}), EXPECTED, LIMIT)
    for _ in range(2):
        with pytest.raises(SchemaError, match="note: 1"):
            other.header.read(Note)


@pytest.mark.parametrize("names", [1, 2000])
def test_a_short_and_a_long_header_are_refused_alike_where_they_are_not_in_the_one_form(names):
    data = encode_tensors(example(), {"names": ["name"] * names})
    end = 8 + int.from_bytes(data[:8], "little")
    spaced = data[8:end].replace(b":", b": ", 1)
    spaced += b" " * (-len(spaced) % 8)
    for _ in range(2):
        with pytest.raises(TensorError, match="not in the one form"):
            decode_tensors(len(spaced).to_bytes(8, "little") + spaced + data[end:], EXPECTED, LIMIT)
