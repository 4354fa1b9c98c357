"""What a device remembers between rounds: exemplars, as digests of images or with features too.

A file of tensors: `digests` (n, 32), `met`, the samples that were trained, and, where the device
keeps features, `features` (n, d); its metadata say which rows are of which class. The features stay
float32: training on a remembered feature is then, to the last bit, training on the image that it
came from, and a fifth of a device's samples at 2,048 numbers is small beside the images themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from pydantic import Field

from fleetledger.methods.errors import MethodError
from fleetledger.methods.training.kept_files import (
    DIGEST_ROWS,
    DIGESTS,
    MOST_EXEMPLARS,
    Listed,
    digest_rows,
    digests_in,
    read_kept,
)
from fleetledger.methods.training.met_samples import MET, MET_ROWS, MetSamples, met_of
from fleetledger.runtime.count_words import count_of
from fleetledger.runtime.strict import Strict
from fleetledger.schemas.rounds import MAX_HEAD_CLASSES
from fleetledger.schemas.tensors import Expected, UpTo, encode_tensors
from fleetledger.schemas.values import ClassName, Digest

Features = npt.NDArray[np.float32]

_LARGEST_FILE = 1 << 33


class _Listed(Strict):
    """The metadata of one class, whose rows follow those of the class before."""

    name: ClassName
    count: int = Field(ge=1, le=MOST_EXEMPLARS)
    wanted: int = Field(ge=1, le=MOST_EXEMPLARS)


class _Facts(Strict):
    """The metadata of the file."""

    stage: int = Field(ge=1, lt=2**31)
    classes: tuple[_Listed, ...] = Field(max_length=MAX_HEAD_CLASSES)
    width: int | None = Field(default=None, ge=1)
    met: tuple[Listed, ...] = Field(default=(), max_length=MAX_HEAD_CLASSES)


@dataclass(frozen=True, eq=False)
class Exemplars:
    """Those of one class; the nearest to its mean come first."""

    digests: tuple[Digest, ...]
    features: Features | None = None
    """(n, d), or None where the images are read again."""
    wanted: int = 0
    """How many the ratio asked for; what a bound on all classes leaves is shared out by it."""

    def __len__(self) -> int:
        return len(self.digests)

    def chosen(self, rows: Iterable[int]) -> Exemplars:
        """Return those of the given rows."""
        kept = list(rows)
        digests = tuple(self.digests[row] for row in kept)
        features = None if self.features is None else self.features[kept]
        return Exemplars(digests, features, self.wanted)

    def joined(self, other: Exemplars) -> Exemplars:
        """Return both in one list, for classes that became one; no image comes twice."""
        both = Exemplars(
            self.digests + other.digests,
            None
            if self.features is None or other.features is None
            else np.concatenate([self.features, other.features]),
            self.wanted + other.wanted,
        )
        return both.chosen({digest: row for row, digest in enumerate(both.digests)}.values())


@dataclass(frozen=True, eq=False)
class Memory:
    """What is known before the first round is nothing: stage 0."""

    stage: int = 0
    """The stage that was trained last."""
    classes: Mapping[ClassName, Exemplars] = field(default_factory=dict)
    """Of every class that was remembered, those of the stage that was trained last among them."""
    met: MetSamples = field(default_factory=MetSamples)
    """Samples that were trained as new ones."""

    @property
    def stored(self) -> int:
        """Number of exemplars."""
        return sum(map(len, self.classes.values()))

    def renamed(self, aliases: Mapping[ClassName, ClassName]) -> Memory:
        """Return the memory under the names that classes have now; merged classes are one."""
        classes: dict[ClassName, Exemplars] = {}
        for name, exemplars in self.classes.items():
            now = aliases.get(name, name)
            classes[now] = classes[now].joined(exemplars) if now in classes else exemplars
        return Memory(self.stage, classes, self.met.renamed(aliases))

    def write(self) -> bytes:
        """Return the memory as bytes."""
        lists = sorted(self.classes.items())
        named = [_Listed(name=name, count=len(item), wanted=item.wanted) for name, item in lists]
        rows = digest_rows([digest for _, item in lists for digest in item.digests])
        met, met_rows = self.met.written()
        tensors: dict[str, npt.NDArray[Any]] = {DIGESTS: rows, MET: met_rows}
        kept = [item.features for _, item in lists if item.features is not None]
        if kept:
            tensors["features"] = np.concatenate(kept)
        width = kept[0].shape[1] if kept else None
        facts = _Facts(stage=self.stage, classes=tuple(named), width=width, met=met)
        return encode_tensors(tensors, facts.model_dump(mode="json"))


def read_memory(data: bytes | None, width: int) -> Memory:
    """Return a memory; the empty one for None.

    Raises `MethodError` for another file, and for features that are not `width` numbers.
    """
    if data is None:
        return Memory()
    facts, tensors = read_kept(
        "memory", data, lambda metadata: _expected(metadata, width), _Facts, _LARGEST_FILE
    )
    digests, features = tensors[DIGESTS], tensors.get("features")
    ends = np.cumsum([listed.count for listed in facts.classes], dtype=int)
    total = int(ends[-1]) if len(ends) else 0
    if any(len(rows) != total for rows in (digests, features) if rows is not None):
        raise MethodError(
            f"memory: {count_of(len(digests), 'exemplar')}, where its classes have {total}; remove "
            "the file, and exemplars are chosen anew"
        )
    classes = {}
    for listed, end in zip(facts.classes, ends, strict=True):
        rows = slice(int(end) - listed.count, int(end))
        classes[listed.name] = Exemplars(
            digests_in(digests[rows]),
            None if features is None else features[rows],
            listed.wanted,
        )
    return Memory(facts.stage, classes, met_of(facts.met, tensors[MET]))


def _expected(metadata: Mapping[str, Any], width: int) -> dict[str, Expected]:
    expected = {DIGESTS: DIGEST_ROWS, MET: MET_ROWS}
    if metadata.get("width") is not None:
        expected["features"] = Expected("float32", (UpTo(MOST_EXEMPLARS), width))
    return expected
