"""What becomes of a text file: the same ids everywhere, and words for a bad file."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from fleetledger.learning.errors import TextError
from fleetledger.learning.numerics.preprocessing import preprocess
from fleetledger.learning.numerics.tokens import MAX_TEXT_BYTES, token_ids
from fleetledger.schemas.text import TextPreprocessing

CHARACTERS = TextPreprocessing(
    mode="text", tokens="characters", alphabet="abé \n", length=4, unknown_id=1, input_name="x"
)
BYTES = TextPreprocessing(mode="text", tokens="bytes", length=4, input_name="x")
IDS = TextPreprocessing(mode="text", tokens="ids", vocabulary=100, length=4, input_name="x")


def slow_ids(text: str, spec: TextPreprocessing) -> list[int]:
    """Count ids one by one, and walk the text from its end."""
    table, number = {}, 0
    for character in spec.alphabet:
        while number in (spec.pad_id, spec.unknown_id):
            number += 1
        table[character] = number
        number += 1
    found: list[int] = []
    for character in reversed(text):
        if len(found) < spec.length:
            assert spec.unknown_id is not None
            found.insert(0, table.get(character, spec.unknown_id))
    padding = [spec.pad_id] * (spec.length - len(found))
    return padding + found if spec.pad_side == "left" else found + padding


@given(
    text=st.text(st.sampled_from("abé \nxyz"), min_size=1, max_size=9),
    pad=st.integers(0, 8),
    unknown=st.integers(0, 8),
    side=st.sampled_from(["left", "right"]),
)
def test_characters_are_those_of_the_slow_reference(
    text: str, pad: int, unknown: int, side: str
) -> None:
    if pad == unknown:
        unknown += 1
    spec = CHARACTERS.model_copy(update={"pad_id": pad, "unknown_id": unknown, "pad_side": side})
    made = preprocess(text.encode(), spec)
    assert made.dtype == np.int64
    assert made.tolist() == slow_ids(text, spec)


def test_the_last_characters_count_and_a_short_text_is_filled_up_before_it() -> None:
    assert token_ids("a\nbaé".encode(), CHARACTERS).tolist() == [6, 3, 2, 4]
    assert token_ids(b"b", CHARACTERS).tolist() == [0, 0, 0, 3]


def test_bytes_skip_the_id_that_pads() -> None:
    assert token_ids(b"\x00\xff", BYTES).tolist() == [0, 0, 1, 256]
    behind = BYTES.model_copy(update={"pad_id": 256, "pad_side": "right"})
    assert token_ids(b"\x00\xff", behind).tolist() == [0, 255, 256, 256]
    every = {int(token_ids(bytes([value]), BYTES)[-1]) for value in range(256)}
    assert len(every) == 256


def test_ids_are_taken_as_they_are_written() -> None:
    assert token_ids(b"5 99\n 007\n", IDS).tolist() == [0, 5, 99, 7]


@pytest.mark.parametrize(
    ("data", "spec", "message"),
    [
        (b"", CHARACTERS, "0 bytes; give a file of 1 to"),
        (b"a" * (MAX_TEXT_BYTES + 1), BYTES, f"{MAX_TEXT_BYTES + 1} bytes"),
        (b"ab\xff", CHARACTERS, "not UTF-8 at byte 2; save the file as UTF-8"),
        (b"abx", CHARACTERS.model_copy(update={"unknown_id": None}), "character 'x' is not in"),
        (b"1 2 3 4 5", IDS, "5 ids; give 1 to 4: let the tokenizer cut"),
        (b" \n", IDS, "0 ids; give 1 to 4"),
        (b"1 100", IDS, "'100' is no id; give decimal numbers from 0 to 99"),
        (b"-1", IDS, "'-1' is no id"),
        ("\u0663".encode(), IDS, "is no id"),
        (b"1" * 5000, IDS, "is no id"),
    ],
)
def test_a_bad_file_is_refused_with_the_way_out(
    data: bytes, spec: TextPreprocessing, message: str
) -> None:
    with pytest.raises(TextError, match=message):
        token_ids(data, spec)


def test_a_picture_is_no_text() -> None:
    with pytest.raises(TextError, match="a picture, where the model takes text"):
        preprocess(Image.new("L", (2, 2)), CHARACTERS)


def test_every_pair_of_known_texts_of_full_length_is_told_apart() -> None:
    seen = {
        tuple(token_ids("".join(letters).encode(), CHARACTERS))
        for letters in itertools.product("abé \n", repeat=4)
    }
    assert len(seen) == 5**4
