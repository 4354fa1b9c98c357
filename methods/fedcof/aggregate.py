"""Class sums of the fleet, kept as they came, because covariances are estimated from their spread.

A row is the sum of h over one class's samples in one contribution. Rows are added and taken out
whole, so neither order nor repeats show; what is estimated depends on which rows are held and on
nothing else. The digest is over the rows, which are integers.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt
from typing_extensions import Self

from fleetledger.learning.numerics.estimated_gram import ClassGroups
from fleetledger.methods.errors import MethodError
from fleetledger.methods.fedcof.messages import FedcofAssignment
from fleetledger.methods.statistics.class_sums import ClassSums
from fleetledger.methods.statistics.kept_parts import Parts, merged, renamed
from fleetledger.schemas.canonical import canonical_json
from fleetledger.schemas.values import ClassName, Digest


@dataclass(frozen=True, eq=False)
class Row:
    """Samples of one class in one contribution, and the sum of h over them, (M,)."""

    count: int
    values: npt.NDArray[np.int32]
    """No sum leaves int32: a part has at most a million samples, and a feature is at most 127."""

    @cached_property
    def digest(self) -> bytes:
        """SHA-256 of samples and integers; the class is not in it."""
        told = b"%d\n" % self.count + self.values.astype("<i4", copy=False).tobytes()
        return hashlib.sha256(told).digest()


Rows = Parts[Row]


@dataclass(frozen=True, eq=False)
class FedcofAggregate:
    """Rows of every class that has samples, by name; they are `columns` wide."""

    columns: int
    classes: Mapping[ClassName, Rows] = field(default_factory=dict)

    @classmethod
    def empty(cls, assignment: FedcofAssignment) -> Self:
        """Return the aggregate of no data."""
        return cls(assignment.columns)

    @classmethod
    def of(cls, assignment: FedcofAssignment, statistics: ClassSums, stage: int) -> Self:
        """Return the aggregate of one contribution; the stage it was made in does not matter."""
        told = zip(statistics.class_names, statistics.counts, statistics.sums, strict=True)
        rows = {name: Row(int(count), sums.astype(np.int32)) for name, count, sums in told}
        classes = {name: {row.digest: (row, 1)} for name, row in rows.items()}
        return cls(assignment.columns, classes)

    @property
    def samples(self) -> dict[ClassName, int]:
        """Number of samples per class, sorted by name."""
        return {
            name: sum(row.count * times for row, times in self.classes[name].values())
            for name in sorted(self.classes)
        }

    def groups(self, name: ClassName) -> ClassGroups:
        """Return a class's rows as numbers, in the order of their digests."""
        held = sorted(self.classes[name].items())
        rows = [row for _, (row, times) in held for _ in range(times)]
        return ClassGroups(
            np.stack([row.values.astype(np.float64) for row in rows]),
            np.array([row.count for row in rows], np.int64),
        )

    @property
    def digest(self) -> Digest:
        """The SHA-256 of the rows: by class name, then by digest."""
        header = {
            "form": "fedcof-aggregate-1",
            "columns": self.columns,
            "rows": {
                name: sum(times for _, times in self.classes[name].values())
                for name in self.samples
            },
        }
        digest = hashlib.sha256(canonical_json(header) + b"\n")
        for name in self.samples:
            for row, (_, times) in sorted(self.classes[name].items()):
                digest.update(row * times)
        return Digest(digest.hexdigest())

    def __add__(self, other: FedcofAggregate) -> FedcofAggregate:
        """Return the aggregate of both data; raise `MethodError` if they do not fit together."""
        return self._with(other, 1)

    def __sub__(self, other: FedcofAggregate) -> FedcofAggregate:
        """Return the aggregate without the other's data, as if it had never been added.

        Raises `MethodError` when the other holds data that was not added.
        """
        return self._with(other, -1)

    def renamed(self, names: Mapping[ClassName, ClassName]) -> FedcofAggregate:
        """Return the aggregate with classes renamed by `names`, alias to name.

        Rows of classes that get the same name stay rows; classes left out keep their names.
        """
        return FedcofAggregate(self.columns, renamed(self.classes, names))

    def _with(self, other: FedcofAggregate, sign: int) -> FedcofAggregate:
        if self.columns != other.columns:
            raise MethodError(
                f"aggregate: sums of {self.columns} and of {other.columns} features cannot be "
                "added; they belong to different lineages"
            )
        return FedcofAggregate(self.columns, merged(self.classes, other.classes, sign))
