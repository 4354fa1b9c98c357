"""How a text becomes the input tensor of an encoder: characters, bytes, or ids of a tokenizer."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints, model_validator
from typing_extensions import Self

from fleetledger.runtime.strict import Strict

MAX_TOKENS = 8192
"""Tokens of one preprocessed text."""
MAX_ALPHABET = 4096
MAX_VOCABULARY = 1 << 24

TensorName = Annotated[str, StringConstraints(min_length=1, max_length=200)]
TokenId = Annotated[int, Field(ge=0, lt=MAX_VOCABULARY)]


class TextPreprocessing(Strict):
    """How a text becomes token ids; `learning.numerics.preprocessing` applies it.

    Characters and bytes take the ids from 0 on, one after the other, that are neither `pad_id` nor
    `unknown_id`: characters in the order of `alphabet`, bytes in that of their values. With `ids` a
    file holds the ids themselves, as decimal numbers. Of characters and bytes the last `length`
    count; a shorter text is filled up with `pad_id`.
    """

    mode: Literal["text"]
    tokens: Literal["characters", "bytes", "ids"]
    length: int = Field(ge=1, le=MAX_TOKENS)
    """Tokens of the input tensor."""
    alphabet: str = Field(default="", max_length=MAX_ALPHABET)
    """With `characters`, each of them once, in the order of their ids."""
    vocabulary: int | None = Field(default=None, ge=1, le=MAX_VOCABULARY)
    """With `ids`, how many there are; an id is below it."""
    pad_id: TokenId = 0
    pad_side: Literal["left", "right"] = "left"
    """Where a short text is filled up: before it, or behind it."""
    unknown_id: TokenId | None = None
    """With `characters`, the id of all others; left out, a text with another one is refused."""
    input_name: TensorName
    """Name of the model's one input."""
    dtype: Literal["int64"] = "int64"

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        self._check_alphabet()
        if (self.vocabulary is None) == (self.tokens == "ids"):
            raise ValueError(
                f"vocabulary: {'missing' if self.vocabulary is None else 'given'} with tokens "
                f"{self.tokens!r}; it goes with 'ids', which need it"
            )
        if self.vocabulary is not None and self.pad_id >= self.vocabulary:
            raise ValueError(
                f"pad_id: {self.pad_id} is no id of a vocabulary of {self.vocabulary}; give one "
                "below it"
            )
        if self.unknown_id is not None and self.tokens != "characters":
            raise ValueError(f"unknown_id: given with tokens {self.tokens!r}; leave it out")
        if self.unknown_id == self.pad_id:
            raise ValueError(f"unknown_id: {self.unknown_id} is pad_id too; give another")
        return self

    def _check_alphabet(self) -> None:
        if bool(self.alphabet) != (self.tokens == "characters"):
            raise ValueError(
                f"alphabet: {len(self.alphabet)} characters with tokens {self.tokens!r}; it goes "
                "with 'characters', which need it"
            )
        if len(set(self.alphabet)) != len(self.alphabet):
            raise ValueError("alphabet: a character stands twice; give each once")

    @property
    def shape(self) -> tuple[int]:
        """Shape of one preprocessed text, without the batch axis."""
        return (self.length,)
