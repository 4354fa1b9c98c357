"""A solved head as bytes: its weights, and what tells how new a sample is, where it has that.

The ledger names these bytes by their digest. A head without novelty is the bytes of its weights
alone, as it was before there was any.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fleetledger.learning.numerics.score_novelty import ScoreNovelty
from fleetledger.methods.errors import MethodError
from fleetledger.methods.statistics.sides import SolvedClassifier
from fleetledger.runtime.count_words import count_of
from fleetledger.schemas.tensors import Expected, encode_tensors, read_tensors

_MAX_BYTES = 1 << 30
_WEIGHTS, _CLASSES = "weights", "novelty_classes"
_PARTS = ("rows", "centre", "within", "means", "overall")


@dataclass(frozen=True, eq=False)
class StoredHead:
    """A head as it was stored."""

    weights: npt.NDArray[np.float32]
    """W (C, M)."""
    novelty: ScoreNovelty | None

    @property
    def tensors(self) -> tuple[Mapping[str, npt.NDArray[Any]], ...]:
        """The tensors, those of the novelty apart."""
        own = {_WEIGHTS: self.weights}
        return (own,) if self.novelty is None else (own, _tensors(self.novelty))


def encode_head(head: SolvedClassifier) -> bytes:
    """Return the bytes of a head; the law: `decode_head(encode_head(h), shape)` gives it back."""
    if head.novelty is None:
        return encode_tensors({_WEIGHTS: head.weights})
    parts = _tensors(head.novelty)
    return encode_tensors({_WEIGHTS: head.weights, **parts}, {_CLASSES: len(head.novelty.rows)})


def decode_head(data: bytes, shape: tuple[int, int]) -> StoredHead:
    """Return the head of `shape` (C, M); raise `SchemaError` or `MethodError` for anything else."""

    def expected(metadata: dict[str, Any]) -> dict[str, Expected]:
        own = {_WEIGHTS: Expected("float32", shape)}
        classes = metadata.get(_CLASSES)
        if classes is None:
            return own
        if not (isinstance(classes, int) and 2 <= classes <= shape[0]):
            raise MethodError(
                f"{_CLASSES}: {classes!r} of {count_of(shape[0], 'class', 'classes')}; solve the "
                "head anew"
            )
        square = dict.fromkeys(_PARTS[2:], Expected("float32", (classes, classes)))
        rows, centre = Expected("int64", (classes,)), Expected("float32", (classes,))
        return own | {"rows": rows, "centre": centre} | square

    tensors = read_tensors(data, expected, _MAX_BYTES).tensors
    weights = np.ascontiguousarray(tensors.pop(_WEIGHTS))
    if not tensors:
        return StoredHead(weights, None)
    rows = tensors["rows"]
    if len(np.unique(rows)) < len(rows) or rows.min() < 0 or rows.max() >= shape[0]:
        raise MethodError(
            f"rows: not those of {count_of(shape[0], 'class', 'classes')}; solve the head anew"
        )
    return StoredHead(weights, ScoreNovelty(**tensors))


def _tensors(novelty: ScoreNovelty) -> dict[str, npt.NDArray[Any]]:
    return {name: getattr(novelty, name) for name in _PARTS}
