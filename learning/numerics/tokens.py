"""From the bytes of a text file to token ids, the same on devices and everywhere else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import count, islice
from types import MappingProxyType
from typing import Literal, Protocol

import numpy as np
import numpy.typing as npt

from fleetledger.learning.errors import TextError

MAX_TEXT_BYTES = 1 << 20
"""Larger texts are refused before they are decoded."""
_BYTES = 256
_DIGITS = 9
"""More than the largest id has."""


class TextSpec(Protocol):
    """What `token_ids` needs to know; `schemas.text.TextPreprocessing` fits, so does a dataclass.

    Its docstring says which ids characters and bytes have.
    """

    @property
    def mode(self) -> Literal["text"]:
        """Tells it from the preprocessing of pictures."""

    @property
    def tokens(self) -> Literal["characters", "bytes", "ids"]:
        """What a token is."""

    @property
    def length(self) -> int:
        """Tokens of the result."""

    @property
    def alphabet(self) -> str:
        """Known characters."""

    @property
    def vocabulary(self) -> int | None:
        """Number of ids, with `ids`."""

    @property
    def pad_id(self) -> int:
        """Fills short texts up."""

    @property
    def pad_side(self) -> Literal["left", "right"]:
        """Where short texts are filled up."""

    @property
    def unknown_id(self) -> int | None:
        """Id of characters that are not in the alphabet; None: there may be none."""


def token_ids(data: bytes, spec: TextSpec) -> npt.NDArray[np.int64]:
    """Return the ids (length,) of one text file.

    Raises `TextError` for a file that is empty or larger than `MAX_TEXT_BYTES`, is not UTF-8, or
    holds a character or id that `spec` does not know; with `ids` also for one of more than `length`
    ids, because a tokenizer's last or first ids may be special.
    """
    if not data or len(data) > MAX_TEXT_BYTES:
        raise TextError(
            f"text: {len(data)} bytes; give a file of 1 to {MAX_TEXT_BYTES}, or cut it into several"
        )
    known = {"characters": _of_characters, "bytes": _of_bytes, "ids": _of_ids}
    ids = known[spec.tokens](data, spec)
    filled = np.full(spec.length, spec.pad_id, np.int64)
    if spec.pad_side == "left":
        filled[spec.length - len(ids) :] = ids
    else:
        filled[: len(ids)] = ids
    return filled


def alphabet_ids(spec: TextSpec) -> Mapping[str, int]:
    """Return the id of every character of the alphabet, in its order."""
    return _ids_of(spec.alphabet, spec.pad_id, spec.unknown_id)


@lru_cache(maxsize=8)
def _ids_of(alphabet: str, pad_id: int, unknown_id: int | None) -> Mapping[str, int]:
    free = _free_ids(pad_id, unknown_id, len(alphabet))
    return MappingProxyType(dict(zip(alphabet, free, strict=True)))


@lru_cache(maxsize=8)
def _free_ids(pad_id: int, unknown_id: int | None, number: int) -> tuple[int, ...]:
    """Return the first ids that neither pad nor stand for the unknown."""
    free = (candidate for candidate in count() if candidate not in (pad_id, unknown_id))
    return tuple(islice(free, number))


def _of_characters(data: bytes, spec: TextSpec) -> Sequence[int]:
    text = _decoded(data)[-spec.length :]
    known = alphabet_ids(spec)
    unknown = spec.unknown_id
    if unknown is not None:
        return [known.get(character, unknown) for character in text]
    strange = [character for character in text if character not in known]
    if strange:
        raise TextError(
            f"text: the character {strange[0]!r} is not in the alphabet; replace it, or give the "
            "preprocessing an unknown_id"
        )
    return [known[character] for character in text]


def _of_bytes(data: bytes, spec: TextSpec) -> Sequence[int]:
    known = _free_ids(spec.pad_id, spec.unknown_id, _BYTES)
    return [known[byte] for byte in data[-spec.length :]]


def _of_ids(data: bytes, spec: TextSpec) -> Sequence[int]:
    assert spec.vocabulary is not None
    words = _decoded(data).split()
    if not 1 <= len(words) <= spec.length:
        raise TextError(
            f"text: {len(words)} ids; give 1 to {spec.length}: let the tokenizer cut the text, "
            "which knows its special tokens"
        )
    return [_id(word, spec.vocabulary) for word in words]


def _id(word: str, vocabulary: int) -> int:
    if word.isascii() and word.isdigit() and len(word) <= _DIGITS and int(word) < vocabulary:
        return int(word)
    raise TextError(
        f"text: {word[:40]!r} is no id; give decimal numbers from 0 to {vocabulary - 1}, with "
        "spaces between them"
    )


def _decoded(data: bytes) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise TextError(
            f"text: not UTF-8 at byte {error.start}; save the file as UTF-8, or take bytes for "
            "tokens"
        ) from error
