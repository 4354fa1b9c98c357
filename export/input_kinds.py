"""Kinds of input that a file from elsewhere may have: a value for each, with all that differs."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from onnx import TensorProto

from fleetledger.runtime.count_words import count_of
from fleetledger.schemas.models import AnyPreprocessing, Preprocessing


@dataclass(frozen=True, eq=False)
class InputKind:
    """What an input of one kind of sample may be."""

    nouns: str
    """What people call several samples."""
    elements: tuple[int, ...]
    """Types of tensors that a file may take; others than `usual` go through a `Cast`."""
    usual: int
    """Type of what devices give."""
    element_words: str
    """The types in words, and what they hold."""
    in_a_row: bool = True
    """Whether a file may take a sample's numbers in a row."""
    maps: frozenset[int] = frozenset()
    """Ranks of outputs, samples included, that `--pool` averages."""

    def wanted(self, preprocessing: AnyPreprocessing) -> str:
        """Return in words what input to export."""
        words = f"{self.element_words} of rank {len(preprocessing.shape) + 1}"
        if not self.in_a_row:
            return words
        return f"{words}, or its {count_of(prod(preprocessing.shape), 'number')} in a row"

    def takes_a_row(self, axes: list[int], preprocessing: AnyPreprocessing) -> bool:
        """Return whether a file's input of these axes, samples included, has samples in a row."""
        row = [prod(preprocessing.shape)]
        return self.in_a_row and axes[1:] == row and row != list(preprocessing.shape)

    def takes_one(self, axes: list[int], preprocessing: AnyPreprocessing) -> bool:
        """Return whether a file's input of these axes is one sample, without an axis of samples.

        A free axis before another is one of samples in a row, perhaps of too many numbers.
        """
        rows = self.takes_a_row(axes, preprocessing) or (len(axes) == 2 and axes[0] <= 0)
        return len(axes) == len(preprocessing.shape) and not rows


_FLOATS = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE)
_PICTURES = InputKind(
    "images",
    (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.UINT8, TensorProto.DOUBLE),
    TensorProto.FLOAT,
    "a FLOAT, FLOAT16, DOUBLE or UINT8 image",
    maps=frozenset({4}),
)
_OTHERS = {
    "text": InputKind(
        "texts",
        # Keras has floats where nothing else is said.
        (TensorProto.INT64, TensorProto.INT32, TensorProto.FLOAT),
        TensorProto.INT64,
        "INT64 token ids",
        in_a_row=False,
    ),
    "array": InputKind(
        "arrays",
        _FLOATS,
        TensorProto.FLOAT,
        "a FLOAT, FLOAT16 or DOUBLE array",
        maps=frozenset({3, 4, 5}),
    ),
}
"""By mode; all other modes are of pictures."""


def input_kind(preprocessing: AnyPreprocessing) -> InputKind:
    """Return the kind of input that a preprocessing makes."""
    return _OTHERS.get(preprocessing.mode, _PICTURES)


def channels_last(preprocessing: AnyPreprocessing) -> bool:
    """Return whether the features of a map are its last axis, not the one behind the samples."""
    return isinstance(preprocessing, Preprocessing) and preprocessing.layout == "NHWC"
