"""STSA at the coordinator: check contributions, add them up, solve for the head.

    check       what a contribution must obey before it counts
    Aggregate   G~ and P~ of all data so far           equations (2) to (5)
    solve       W = (G~ + lambda I)^-1 P~              equations (7), (8) and (10)

Pure functions; the ledger decides what is added and which classes have which index.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from fleetledger.learning.errors import LearningError
from fleetledger.learning.numerics.blas import one_blas_thread, platform_fingerprint
from fleetledger.learning.numerics.counter_generator import gaussian_map, integer_map
from fleetledger.learning.numerics.exactness import FLOAT64_EXACT
from fleetledger.learning.numerics.influence import Moments
from fleetledger.learning.numerics.possible_moments import scatter_work
from fleetledger.learning.numerics.ridge import solve_ridge
from fleetledger.learning.numerics.ridge_choice import RIDGES
from fleetledger.learning.numerics.score_novelty import ScoreNovelty
from fleetledger.methods.errors import ContributionError, MethodError
from fleetledger.methods.statistics.linear_head import (
    cosine_weights,
    rows_in_order,
    whitened_weights,
)
from fleetledger.methods.statistics.private_moments import denoised
from fleetledger.methods.statistics.sides import (
    FeatureMap,
    FeatureMoments,
    MadeContribution,
    StatisticsCoordinator,
)
from fleetledger.methods.statistics.words import IntegerMoments, Words
from fleetledger.methods.stsa.aggregate import StsaAggregate
from fleetledger.methods.stsa.checks import check_statistics
from fleetledger.methods.stsa.head import RidgeHead
from fleetledger.methods.stsa.messages import (
    LocalStatistics,
    StsaAssignment,
    decode_statistics,
    encode_statistics,
)
from fleetledger.runtime.errors import SchemaError
from fleetledger.schemas.cohorts import MOST_MEMBERS
from fleetledger.schemas.values import ClassName

MAX_REMARKS = 10
"""More classes than this are only counted in a head's remarks."""

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]


def frozen_map(
    assignment: StsaAssignment,
) -> npt.NDArray[np.int8] | npt.NDArray[np.float32] | None:
    """Return the random map R (d x M) that `frozen.onnx` applies, or None for map "none"."""
    settings, width = assignment.settings, assignment.feature_width
    if settings.map == "integer":
        return integer_map(settings.map_seed, width, settings.map_width)
    if settings.map == "gaussian":
        return gaussian_map(settings.map_seed, width, settings.map_width)
    return None


class StsaCoordinator(StatisticsCoordinator[StsaAssignment, LocalStatistics, StsaAggregate]):
    """Ridge regression behind a random map."""

    assignment_type = StsaAssignment
    aggregate_type = StsaAggregate

    def feature_map(self, assignment: StsaAssignment) -> FeatureMap:
        """Return what follows the backbone in `frozen.onnx`."""
        settings = assignment.settings
        return FeatureMap(settings.map, frozen_map(assignment), settings.feature_bits)

    def check(self, assignment: StsaAssignment, payload: bytes) -> LocalStatistics:
        """Return the statistics in `payload` after checking form and numbers.

        Raises `ContributionError` naming tensor, value and way out; then nothing of it may count.
        """
        statistics = _decoded(assignment, payload)
        _check(assignment, statistics)
        return statistics

    def read(self, assignment: StsaAssignment, payload: bytes) -> LocalStatistics:
        """Return the statistics in a payload of the right form, or in a cohort's sum.

        Raises `ContributionError`.
        """
        return _decoded(assignment, payload, MOST_MEMBERS)

    def from_words(
        self,
        assignment: StsaAssignment,
        words: Words,
        class_names: Sequence[ClassName],
        members: int,
    ) -> MadeContribution:
        """Return the payload of a cohort's sum, in the form 'exact'."""
        assignment.masked_form()
        moments = IntegerMoments.of_words(words, class_names, assignment.columns)
        statistics = LocalStatistics.of_moments(moments, members)
        made = MadeContribution.of(encode_statistics(statistics), statistics.samples_per_class)
        self.read(assignment, made.payload)
        return made

    def check_sum(self, assignment: StsaAssignment, payloads: Sequence[bytes]) -> None:
        """Raise `ContributionError` unless cohorts' sums, added, are those of samples."""
        together = StsaAggregate.empty(assignment)
        try:
            for payload in payloads:
                together += StsaAggregate.of(assignment, self.read(assignment, payload), stage=1)
        except MethodError as error:
            raise ContributionError(str(error)) from error
        rows = together.classes.rows()
        _check(assignment, LocalStatistics(*rows, together.gram, members=len(payloads)))

    def check_work(self, assignment: StsaAssignment) -> int:
        """Return the multiplications of the check that looks at a Gram matrix as a whole."""
        exact = "exact" in assignment.settings.allowed_forms
        return scatter_work(assignment.columns) if exact else 0

    def solve(
        self, assignment: StsaAssignment, aggregate: StsaAggregate, class_order: Sequence[ClassName]
    ) -> RidgeHead:
        """Return the head for the classes of `class_order`, row by row.

        Columns of P are solved in the order of their names, so a class's weights do not depend on
        its index, nor on registered classes without data.
        """
        settings, names = assignment.settings, sorted(aggregate.classes)
        solved = _solve(assignment, aggregate, names)
        rows = dict(zip(names, solved.weights.T, strict=True))
        weights = rows_in_order(rows, class_order, aggregate.columns)
        places = np.array([class_order.index(name) for name in names], np.int64)
        return RidgeHead(
            weights,
            tuple(class_order),
            settings.logit_scale,
            solved.ridge,
            platform_fingerprint(),
            remarks=_remarks(aggregate),
            novelty=solved.novelty(places) if settings.novelty == "distance" else None,
        )

    def judged_moments(
        self, assignment: StsaAssignment, aggregate: StsaAggregate, names: Sequence[ClassName]
    ) -> Moments | None:
        """Return G, P and the samples; None for class sums of groups, or noise of privacy."""
        if aggregate.groups or assignment.noise is not None:
            return None
        gram, classes = aggregate.gram_matrix(assignment.settings), aggregate.classes
        exact = classes.largest <= FLOAT64_EXACT and aggregate.gram.largest <= FLOAT64_EXACT
        return Moments(gram, classes.columns_of(names), sum(classes.samples.values()), exact)

    def judged_ridge(self, assignment: StsaAssignment) -> float:
        """Return the ridge of the settings, or the default where sums decide."""
        return assignment.settings.ridge_value

    def gram_triangle(
        self, assignment: StsaAssignment, aggregate: StsaAggregate
    ) -> Integers | None:
        """Return the exact triangle of G; None where it is estimated, noisy or rounded."""
        noisy = assignment.noise is not None or assignment.settings.noise in ("sums", "both")
        told = assignment.integer and not noisy
        return aggregate.gram.values if told and not aggregate.groups else None

    def least_ridge(self, assignment: StsaAssignment) -> float:
        """Return the ridge of the settings, or the least that sums may choose."""
        settings = assignment.settings
        if settings.ridge == "from-sums":
            return float(settings.largest**2 * min(RIDGES))
        return settings.ridge_value

    def feature_moments(
        self, assignment: StsaAssignment, aggregate: StsaAggregate
    ) -> FeatureMoments:
        """Return how features lie over all samples, an estimate where parts sent class sums."""
        gram = aggregate.gram_matrix(assignment.settings)
        return FeatureMoments.of(gram, *aggregate.classes.overall)


COORDINATOR = StsaCoordinator()


def _decoded(assignment: StsaAssignment, payload: bytes, most_members: int = 0) -> LocalStatistics:
    """Return the statistics in a payload; raise `ContributionError` for another form."""
    try:
        return decode_statistics(payload, assignment, most_members=most_members)
    except (SchemaError, LearningError) as error:
        raise ContributionError(str(error)) from error


def _check(assignment: StsaAssignment, statistics: LocalStatistics) -> None:
    try:
        check_statistics(assignment, statistics)
    except LearningError as error:
        raise ContributionError(str(error)) from error


class _Solved(NamedTuple):
    """What was solved for K classes."""

    weights: Floats
    """W (M x K), as the head is to have it."""
    ridge: float
    plain: Floats
    """(G + ridge I)^-1 P (M x K), whose columns the head may have at other lengths."""
    sums: Floats
    """P (M x K)."""
    counts: Integers

    def novelty(self, rows: Integers) -> ScoreNovelty | None:
        """Return what tells how new a sample is, with the classes' rows in the head (K,)."""
        with one_blas_thread():
            agreement = self.plain.T @ self.sums
        before, after = (np.linalg.norm(array, axis=0) for array in (self.plain, self.weights))
        scales = np.where(before > 0, after, 1.0) / np.where(before > 0, before, 1.0)
        return ScoreNovelty.of(agreement, self.counts, np.asarray(scales), rows)


def _solve(
    assignment: StsaAssignment, aggregate: StsaAggregate, names: Sequence[ClassName]
) -> _Solved:
    """Return what is solved for the classes `names`."""
    settings = assignment.settings
    if not names:
        nothing = np.empty((aggregate.columns, 0))
        none = np.empty(0, np.int64)
        return _Solved(nothing, settings.ridge_value, nothing, nothing, none)
    gram = aggregate.gram_matrix(settings)
    if assignment.noise is not None:
        gram = denoised(gram)
    totals = [aggregate.classes[name] for name in names]
    sums = np.stack([total.correlation.to_float() for total in totals], axis=1)
    counts = np.array([total.count for total in totals], np.int64)
    try:
        ridge = settings.ridge_for(gram, sums, counts)
        weights = solve_ridge(gram, sums, ridge)
    except LearningError as error:
        raise MethodError(str(error)) from error
    scaled = weights
    if settings.head == "whitened":
        scaled = whitened_weights(weights, sums)
    elif settings.head == "cosine":
        # The root of the mean square of |h|: G's trace is the sum of |h|^2 over all samples.
        length = sqrt(max(float(np.trace(gram)), 0.0) / counts.sum())
        scaled = cosine_weights(weights, length)
    return _Solved(scaled, ridge, weights, sums, counts)


def _remarks(aggregate: StsaAggregate) -> tuple[str, ...]:
    """Name the classes whose covariance could not be estimated from their own sums."""
    lone = aggregate.groups.lone_holders()
    told = [
        f"class {name!r} of stage {stage} has one group: its covariance is not its own"
        for stage, name in lone[:MAX_REMARKS]
    ]
    return (*told, f"and {len(lone) - MAX_REMARKS} more") if len(lone) > MAX_REMARKS else (*told,)
