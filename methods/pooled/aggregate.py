"""What the coordinator holds of the fleet: features, or exact sums of h and h^2 for each class.

Addition has no order, and subtraction undoes it, bit for bit. The digest depends on the data alone:
not on the order of contributions, nor on how samples were divided over devices and parts.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
from typing_extensions import Self

from fleetledger.learning.numerics.exact_sum import ScaledIntegers
from fleetledger.learning.numerics.gaussian_draws import diagonal_moments, draw_features
from fleetledger.methods.errors import MethodError
from fleetledger.methods.pooled.kept_features import KeptFeatures
from fleetledger.methods.pooled.messages import ClassFeatures, PooledAssignment, Published
from fleetledger.methods.pooled.rows import Features
from fleetledger.methods.statistics.class_totals import ClassTotal, ClassTotals
from fleetledger.schemas.canonical import canonical_json
from fleetledger.schemas.values import ClassName, Digest

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class PooledAggregate:
    """Features of `columns` M of all samples, or totals of 2 M: sums of h, then of h^2.

    Of both, that is empty which the fleet does not publish. Features may take `memory_bytes`.
    """

    columns: int
    memory_bytes: int
    features: KeptFeatures = field(default_factory=KeptFeatures)
    moments: ClassTotals = field(default_factory=lambda: ClassTotals(0))

    @classmethod
    def empty(cls, assignment: PooledAssignment) -> Self:
        """Return the aggregate of no data."""
        moments = ClassTotals(2 * assignment.columns)
        return cls(assignment.columns, assignment.settings.memory_bytes, moments=moments)

    @classmethod
    def of(cls, assignment: PooledAssignment, statistics: Published, stage: int) -> Self:
        """Return the aggregate of one contribution; the stage it was made in does not matter."""
        nothing = cls.empty(assignment)
        if isinstance(statistics, ClassFeatures):
            features, moments = KeptFeatures.of(statistics), nothing.moments
        else:
            both = ScaledIntegers(np.concatenate([statistics.sums, statistics.squares], axis=1))
            features = nothing.features
            moments = ClassTotals.of_rows(statistics.class_names, both, statistics.counts)
        return cls(nothing.columns, nothing.memory_bytes, features, moments)

    @property
    def samples(self) -> dict[ClassName, int]:
        """Number of samples per class, sorted by name."""
        return self.features.samples or self.moments.samples

    @property
    def digest(self) -> Digest:
        """The SHA-256 of the aggregate's one form: classes by name, features by their bytes."""
        header = {
            "form": "pooled-aggregate-1",
            "columns": self.columns,
            "features": self.features.samples,
            "moments": self.moments.samples,
        }
        digest = hashlib.sha256(canonical_json(header) + b"\n")
        for name in self.features.samples:
            digest.update(self.features.rows(name).tobytes())
        for name in self.moments.samples:
            digest.update(_integers(self.moments[name]))
        return Digest(digest.hexdigest())

    def __add__(self, other: PooledAggregate) -> PooledAggregate:
        """Return the aggregate of both data.

        Raises `MethodError` if they do not fit together, or features would take too much memory.
        """
        self._check_width(other)
        features, moments = self.features + other.features, self.moments + other.moments
        held = features.total * self.columns
        if held > self.memory_bytes:
            raise MethodError(
                f"memory_megabytes: {self.memory_bytes >> 20}; features of {features.total} "
                f"samples take {-(-held >> 20)}: let a new lineage allow more, or publish moments"
            )
        return replace(self, features=features, moments=moments)

    def __sub__(self, other: PooledAggregate) -> PooledAggregate:
        """Return the aggregate without the other's data, as if it had never been added.

        Raises `MethodError` when the other holds data that was not added.
        """
        self._check_width(other)
        features, moments = self.features - other.features, self.moments - other.moments
        return replace(self, features=features, moments=moments)

    def renamed(self, names: Mapping[ClassName, ClassName]) -> PooledAggregate:
        """Return the aggregate with classes renamed by `names`, alias to name.

        Classes that get the same name are merged; those that `names` leaves out keep theirs.
        """
        features, moments = self.features.renamed(names), self.moments.renamed(names)
        return replace(self, features=features, moments=moments)

    def rows(self, name: ClassName, draws: int) -> Features:
        """Return what a class is learned from (n, M): its features, or draws by its moments."""
        if name in self.features.classes:
            return self.features.rows(name)
        total = self.moments[name]
        sums, squares = np.split(total.correlation.to_float(), [self.columns])
        mean, variance = diagonal_moments(total.count, sums, squares)
        return draw_features(mean, variance, draws, b"pooled draws " + _seed(total))

    def _check_width(self, other: PooledAggregate) -> None:
        if self.columns != other.columns:
            raise MethodError(
                f"aggregate: features of {self.columns} and of {other.columns} numbers cannot be "
                "held together; they belong to different lineages"
            )


def _seed(total: ClassTotal) -> bytes:
    """Return what a class's draws come from: its totals, so that no name decides about them."""
    return hashlib.sha256(b"%d\n" % total.count + _integers(total)).digest()


def _integers(total: ClassTotal) -> bytes:
    return total.correlation.values.astype("<i8", copy=False).tobytes()
