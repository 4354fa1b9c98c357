"""What a method of statistics is: a class for each of its sides, and what they hand to each other.

A method of statistics learns from one pass over frozen features: a device sends sums, the
coordinator adds them up and solves for a head. The agent and the coordinator know such a method
only by what stands here; docs/methods/adding-a-statistics-method.md builds one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, Literal, Protocol, TypeVar

import numpy as np
import numpy.typing as npt
from typing_extensions import Self

from fleetledger.learning.numerics.influence import Moments
from fleetledger.learning.numerics.score_novelty import ScoreNovelty
from fleetledger.methods.errors import MethodError
from fleetledger.methods.settings import refuse_unknown
from fleetledger.methods.statistics.assignment import FeatureAssignment
from fleetledger.methods.statistics.part import NO_CONTEXT, PartContext
from fleetledger.methods.statistics.part_settings import PartSettings
from fleetledger.methods.statistics.words import Words
from fleetledger.methods.steps import TakesSteps
from fleetledger.schemas.privacy import Noise
from fleetledger.schemas.values import ClassName, Digest

Features = npt.NDArray[np.generic]
"""Features h (n, M) as `frozen.onnx` puts them out; a method says which numbers it takes."""
Integers = npt.NDArray[np.int64]
_LEAST_VARIANCE = 1e-6
"""Of a usual feature's: below it a feature counts as one that does not vary."""
MapKind = Literal["integer", "gaussian", "none"]

StatisticsAssignment = FeatureAssignment[PartSettings]
"""What both sides of any method of statistics are told."""


@dataclass(frozen=True)
class FeatureMap:
    """What follows the backbone in `frozen.onnx`; `export.frozen` says how features h are made.

    `matrix` is the map R (d x M) of the kinds "integer" and "gaussian"; `feature_bits`, 7 or 8,
    counts for "integer". Without a map features are brought to integers, and that is all.
    """

    kind: MapKind = "none"
    matrix: npt.NDArray[np.int8] | npt.NDArray[np.float32] | None = None
    feature_bits: int = 7


@dataclass(frozen=True)
class MadeContribution:
    """A payload with its digest and the number of samples per class."""

    payload: bytes
    digest: Digest
    samples: dict[ClassName, int]
    cells: tuple[int, ...] = ()
    """The group that each sample was dealt to, where a method sums groups of a class; none where
    it sums whole classes."""

    @classmethod
    def of(
        cls, payload: bytes, samples: Mapping[ClassName, int], cells: tuple[int, ...] = ()
    ) -> Self:
        """Return the contribution of a payload."""
        return cls(payload, Digest.of(payload), dict(samples), cells)


class CheckedStatistics(Protocol):
    """A payload that was read and found possible."""

    @property
    def samples_per_class(self) -> Mapping[ClassName, int]:
        """Number of samples by class name."""


class ExactAggregate(Protocol):
    """Sums over contributions: addition has no order, and subtraction undoes it, bit for bit."""

    @property
    def digest(self) -> Digest:
        """The digest of its one form, whatever order it was added in."""

    def __add__(self, other: Self) -> Self:
        """Return the aggregate of both data."""

    def __sub__(self, other: Self) -> Self:
        """Return the aggregate as if the other's data had never been added."""

    def renamed(self, names: Mapping[ClassName, ClassName]) -> Self:
        """Return it with classes renamed, alias to name; those of one name are merged."""


class SolvedClassifier(Protocol):
    """A linear head: scores = h W^T."""

    @property
    def weights(self) -> npt.NDArray[np.float32]:
        """W (C, M), a row for each class in the order that was asked for."""

    @property
    def remarks(self) -> tuple[str, ...]:
        """What an operator should know of it."""

    @property
    def novelty(self) -> ScoreNovelty | None:
        """What tells from its scores how new a sample is; None where devices go by entropy."""


@dataclass(frozen=True, eq=False)
class FeatureMoments:
    """Mean and standard deviation of each feature over all samples (M,); no deviation is zero."""

    centre: npt.NDArray[np.float64]
    spread: npt.NDArray[np.float64]

    @classmethod
    def of(
        cls, gram: npt.NDArray[np.float64], total: npt.NDArray[np.float64], samples: int
    ) -> Self:
        """Return those of `samples` with the Gram matrix (M, M) and the sum (M,).

        A feature that hardly varies, or not as far as an estimate tells, has the deviation of a
        usual one. Raises `MethodError` where nothing varies.
        """
        centre = total / max(samples, 1)
        variance = np.diagonal(gram) / max(samples, 1) - centre**2
        usual = float(np.maximum(variance, 0).mean())
        if usual == 0:
            raise MethodError("features: no sample differs from another; give more samples")
        varies = variance > _LEAST_VARIANCE * usual
        return cls(centre, np.sqrt(np.where(varies, variance, usual)))


Assignment = TypeVar("Assignment", bound=StatisticsAssignment)
Statistics = TypeVar("Statistics", bound=CheckedStatistics)
Aggregate = TypeVar("Aggregate", bound=ExactAggregate)

Assignment_contra = TypeVar("Assignment_contra", contravariant=True)
Statistics_contra = TypeVar("Statistics_contra", contravariant=True)
Aggregate_co = TypeVar("Aggregate_co", covariant=True)


class MakesAggregates(Protocol[Assignment_contra, Statistics_contra, Aggregate_co]):
    """A class of exact aggregates, as a method names it."""

    def empty(self, assignment: Assignment_contra) -> Aggregate_co:
        """Return the aggregate of no data."""

    def of(
        self, assignment: Assignment_contra, statistics: Statistics_contra, stage: int
    ) -> Aggregate_co:
        """Return the aggregate of one contribution, made in `stage`."""


class StatisticsDevice(TakesSteps[Assignment], ABC):
    """The device side; its module imports neither torch nor what a small device lacks."""

    def read_assignment(self, body: Mapping[str, object]) -> Assignment:
        """Return the assignment that the coordinator side dumped; raise `MethodError`."""
        return self.assignment_type.from_values(body)

    @abstractmethod
    def finish(
        self,
        assignment: Assignment,
        features: Features,
        labels: Sequence[str],
        context: PartContext = NO_CONTEXT,
    ) -> MadeContribution:
        """Return the contribution of features h (n, M) with a class name each.

        Equal arguments give equal payloads. Raises `MethodError` naming what is wrong: another
        shape, values that are no features, a label that was not assigned, a class with too few
        samples, a form that there is not.
        """

    def to_words(
        self, assignment: Assignment, payload: bytes, class_names: Sequence[ClassName]
    ) -> Words:
        """Return a payload of `finish` as words, for a cohort that has these classes in this order.

        Raises `MethodError` where parts are not summed behind masks, or for another class.
        """
        assignment.masked_form()
        raise NotImplementedError(f"{type(self).__name__}: has a masked form and no words")


class StatisticsCoordinator(
    TakesSteps[Assignment], ABC, Generic[Assignment, Statistics, Aggregate]
):
    """The coordinator side."""

    aggregate_type: MakesAggregates[Assignment, Statistics, Aggregate]

    def assign(
        self, settings: Mapping[str, object], feature_width: int, noise: Noise | None = None
    ) -> Assignment:
        """Return the assignment of a lineage: an operator's settings, the backbone's width d.

        Raises `MethodError` naming the field that is wrong.
        """
        refuse_unknown(self.assignment_type, settings)
        return self.assignment_type.of(settings, feature_width, noise)

    def read_assignment(self, body: Mapping[str, object]) -> Assignment:
        """Return the assignment that `model_dump` wrote; raise `MethodError`."""
        return self.assignment_type.from_values(body)

    def feature_map(self, assignment: Assignment) -> FeatureMap:
        """Return what follows the backbone in the frozen model."""
        return FeatureMap()

    @abstractmethod
    def check(self, assignment: Assignment, payload: bytes) -> Statistics:
        """Return the statistics in a payload; raise `ContributionError` unless they are possible.

        Nothing from the network is trusted: sizes, names, shapes and ranges are checked.
        """

    def read(self, assignment: Assignment, payload: bytes) -> Statistics:
        """Return the statistics in a payload that `check` has passed, without what is costly."""
        return self.check(assignment, payload)

    def from_words(
        self,
        assignment: Assignment,
        words: Words,
        class_names: Sequence[ClassName],
        members: int,
    ) -> MadeContribution:
        """Return the payload of the sum of so many members' words, which `read` takes.

        The law: of words that `to_words` gave and that were added modulo 2^64, it is the part of
        all samples together. Where members took out what they gave before, numbers of samples may
        be negative. Raises `ContributionError` for other words; `check_sum` looks at the numbers.
        """
        del words, class_names, members
        assignment.masked_form()
        raise NotImplementedError(f"{type(self).__name__}: has a masked form and no words")

    def check_sum(self, assignment: Assignment, payloads: Sequence[bytes]) -> None:
        """Raise `ContributionError` unless cohorts' sums, added, are possible.

        `payloads` are of `from_words`: that of a cohort after those of cohorts that it takes from.
        """
        del payloads
        assignment.masked_form()
        raise NotImplementedError(f"{type(self).__name__}: has a masked form and no words")

    def check_work(self, assignment: Assignment) -> int:
        """Return the multiplications that `check` may need for a payload beside reading it."""
        del assignment
        return 0

    @abstractmethod
    def solve(
        self, assignment: Assignment, aggregate: Aggregate, class_order: Sequence[ClassName]
    ) -> SolvedClassifier:
        """Return the head for the classes of `class_order`; a class without data gets zeros.

        Raises `MethodError` when the order lacks a class that has data or names one twice, and
        when there is no stable solution.
        """

    def judged_moments(
        self, assignment: Assignment, aggregate: Aggregate, names: Sequence[ClassName]
    ) -> Moments | None:
        """Return what a part is judged by, with a column of P for each of `names`.

        None where the sums hold no Gram matrix of their own.
        """
        del assignment, aggregate, names
        return None

    def judged_ridge(self, assignment: Assignment) -> float:
        """Return the ridge of the models that parts are judged by."""
        raise MethodError(f"method: {type(self).__name__} judges no parts")

    def gram_triangle(self, assignment: Assignment, aggregate: Aggregate) -> Integers | None:
        """Return the triangle of G (M(M+1)/2,) of samples, exactly; None where sums hold none."""
        del assignment, aggregate
        return None

    def least_ridge(self, assignment: Assignment) -> float:
        """Return the least ridge that a head may be solved with."""
        return self.judged_ridge(assignment)

    def feature_moments(self, assignment: Assignment, aggregate: Aggregate) -> FeatureMoments:
        """Return how features lie over all samples; raise `MethodError` where sums do not tell."""
        del assignment, aggregate
        raise MethodError(
            f"method: sums of {type(self).__name__.removesuffix('Coordinator')} do not tell how "
            "features spread; stsa's and fed3r's do"
        )


AnyStatisticsDevice = StatisticsDevice[StatisticsAssignment]
AnyStatisticsCoordinator = StatisticsCoordinator[
    StatisticsAssignment, CheckedStatistics, ExactAggregate
]
"""Whose it is, is known by its name alone."""
