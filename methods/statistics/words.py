"""Sums of samples as words of 64 bits, which are added modulo 2^64 behind masks.

For C classes, in an order that all members of a cohort are told, and M features:

    counts  (C,)               samples per class
    sums    (C, M)             the sum of h per class, row by row
    gram    (M(M+1)/2,)        upper triangle of H^T H, row by row

Words are these integers in two's complement. The law: the words of several parts, added, are those
of all their samples together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from typing_extensions import Self

from fleetledger.learning.numerics.triangles import triangle_size
from fleetledger.methods.errors import ContributionError, MethodError
from fleetledger.runtime.count_words import count_of
from fleetledger.schemas.values import ClassName

Integers = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]


@dataclass(frozen=True, eq=False)
class IntegerMoments:
    """Counts (C,), sums (C, M) and the triangle of G (M(M+1)/2,) of classes sorted by name."""

    class_names: tuple[ClassName, ...]
    counts: Integers
    sums: Integers
    gram: Integers

    def to_words(self, layout: Sequence[ClassName]) -> Words:
        """Return the words for the classes of `layout`, in its order.

        Raises `MethodError` for a class that it lacks.
        """
        places = {name: place for place, name in enumerate(layout)}
        if lacking := [name for name in self.class_names if name not in places]:
            raise MethodError(
                f"class_names: the cohort's words have no place for {lacking[0]!r}; give the part "
                "in a cohort that was formed after the class was named"
            )
        rows = [places[name] for name in self.class_names]
        columns = self.sums.shape[1]
        words = np.zeros(word_count(len(layout), columns), np.int64)
        counts, sums, gram = _divided(words, len(layout), columns)
        counts[rows], sums[rows], gram[:] = self.counts, self.sums, self.gram
        return words.view(np.uint64)

    @classmethod
    def of_words(cls, words: Words, layout: Sequence[ClassName], columns: int) -> Self:
        """Return what words say, without the classes of which they say nothing.

        Raises `ContributionError` for words that are not so many.
        """
        if words.dtype != np.uint64 or words.shape != (word_count(len(layout), columns),):
            raise ContributionError(
                f"words: {words.dtype} {words.shape}; give uint64 "
                f"({word_count(len(layout), columns)},) for "
                f"{count_of(len(layout), 'class', 'classes')} of "
                f"{count_of(columns, 'feature')}"
            )
        counts, sums, gram = _divided(words.view(np.int64), len(layout), columns)
        said = (counts != 0) | (sums != 0).any(axis=1)
        rows = sorted(np.flatnonzero(said).tolist(), key=lambda place: layout[place])
        names = tuple(layout[place] for place in rows)
        return cls(names, counts[rows], sums[rows], gram.copy())


def word_count(classes: int, columns: int) -> int:
    """Return how many words the sums of so many classes and features are."""
    return classes * (1 + columns) + triangle_size(columns)


def _divided(integers: Integers, classes: int, columns: int) -> tuple[Integers, Integers, Integers]:
    """Return views of counts, sums and triangle."""
    end = classes * (1 + columns)
    return integers[:classes], integers[classes:end].reshape(classes, columns), integers[end:]
