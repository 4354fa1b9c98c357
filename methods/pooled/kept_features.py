"""Features of the fleet, kept as they came: blocks that are added and taken out whole.

A block is the features of one class in one contribution. Neither order nor repeats of blocks show,
and what is trained on, and the digest, see the rows of a class in the order of their bytes: how
samples were divided over devices and parts does not show either.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from typing_extensions import Self

from fleetledger.methods.pooled.messages import ClassFeatures
from fleetledger.methods.pooled.rows import Features, sorted_rows
from fleetledger.methods.statistics.kept_parts import Parts, merged, renamed
from fleetledger.schemas.values import ClassName


@dataclass(frozen=True, eq=False)
class Block:
    """Features h (n, M) of one class in one contribution."""

    features: Features

    @cached_property
    def digest(self) -> bytes:
        """SHA-256 of the features; the class is not in it."""
        return hashlib.sha256(self.features.tobytes()).digest()


Blocks = Parts[Block]


@dataclass(frozen=True, eq=False)
class KeptFeatures:
    """The blocks of every class that has samples, by name, and how many rows they have together."""

    classes: Mapping[ClassName, Blocks] = field(default_factory=dict)
    total: int = 0

    @classmethod
    def of(cls, part: ClassFeatures) -> Self:
        """Return the blocks of one contribution."""
        blocks = {name: Block(features.copy()) for name, features in part.by_class.items()}
        classes = {name: {block.digest: (block, 1)} for name, block in blocks.items()}
        return cls(classes, len(part.features))

    @property
    def samples(self) -> dict[ClassName, int]:
        """Number of samples per class, sorted by name."""
        return {
            name: sum(len(block.features) * times for block, times in self.classes[name].values())
            for name in sorted(self.classes)
        }

    def rows(self, name: ClassName) -> Features:
        """Return the features (n, M) of a class, in the order of their bytes."""
        blocks = self.classes[name].values()
        held = [block.features for block, times in blocks for _ in range(times)]
        return sorted_rows(np.concatenate(held))

    def __add__(self, other: KeptFeatures) -> KeptFeatures:
        """Return the features of both."""
        return self._with(other, 1)

    def __sub__(self, other: KeptFeatures) -> KeptFeatures:
        """Return them without the other's; raise `MethodError` if those were not added."""
        return self._with(other, -1)

    def renamed(self, names: Mapping[ClassName, ClassName]) -> KeptFeatures:
        """Return them with classes renamed; those that get one name become one class."""
        return KeptFeatures(renamed(self.classes, names), self.total)

    def _with(self, other: KeptFeatures, sign: int) -> KeptFeatures:
        classes = merged(self.classes, other.classes, sign)
        return KeptFeatures(classes, self.total + sign * other.total)
