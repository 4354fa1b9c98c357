"""Answers to a round as words of 64 bits, which are added modulo 2^64 behind masks.

    words = [n_k, n_k q_k]   (1 + n,)

q_k (n,) are the integers of an answer in the form int32, one tensor after the other in the order of
their names, and n_k its samples, or 1 where all weigh alike. Words are in two's complement. The
law: the words of several answers, added, are what their exact mean is made of.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from fleetledger.methods.errors import ContributionError, MethodError
from fleetledger.runtime.count_words import count_of
from fleetledger.runtime.errors import SchemaError
from fleetledger.schemas.tensor_header import read_header

if TYPE_CHECKING:
    from fleetledger.learning.numerics.grids import Grid
    from fleetledger.methods.training.assignment import AveragedSettings, TrainingAssignment

Words = npt.NDArray[np.uint64]

_LARGEST = 1 << 31


def answer_words(
    assignment: TrainingAssignment[AveragedSettings], payload: bytes, samples: int
) -> Words:
    """Return an answer as words; raise `MethodError` where answers are not summed behind masks."""
    assignment.masked_form()
    values = _values(payload)
    share = samples if assignment.is_weighted else 1
    words = np.empty(1 + len(values), np.int64)
    words[0] = share
    np.multiply(values, share, out=words[1:], dtype=np.int64)
    return words.view(np.uint64)


def _values(payload: bytes) -> npt.NDArray[np.int32]:
    """Return all tensors of an answer as one flat array."""
    try:
        header = read_header(payload)
    except SchemaError as error:
        raise MethodError(f"masks: {error}") from error
    if {entry.dtype for entry in header.entries.values()} - {"int32"}:
        raise MethodError("masks: an answer of other tensors than int32 is not summed behind them")
    values = np.frombuffer(payload, "<i4", offset=len(payload) - header.data_size)
    return values.astype(np.int32, copy=False)


def summed_answers(
    words: Words, grid: Grid, members: int, most_samples: int
) -> tuple[int, npt.NDArray[np.int64]]:
    """Return what so many answers weigh together, and the sum of their integers (n,).

    Raises `ContributionError` for words of another number, and for sums that no answers have.
    """
    if words.dtype != np.uint64 or words.shape != (1 + grid.size,):
        raise ContributionError(
            f"words: {words.dtype} {words.shape}; give uint64 ({1 + grid.size},)"
        )
    integers = words.view(np.int64)
    weight, flat = int(integers[0]), integers[1:]
    if not members <= weight <= members * most_samples:
        raise ContributionError(
            f"words: {count_of(weight, 'sample')} of {count_of(members, 'member')}; each has 1 to "
            f"{most_samples}"
        )
    largest = weight * _LARGEST
    bad: npt.NDArray[Any] = (flat < -largest) | (flat >= largest)
    if bad.any():
        raise ContributionError(
            f"words: {flat[int(bad.argmax())]} of answers that weigh {weight}; each number is "
            f"below {largest}"
        )
    return weight, flat
