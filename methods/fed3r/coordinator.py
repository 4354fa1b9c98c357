"""Fed3R at the coordinator: check contributions, add them up, solve for the head.

    check       what a contribution must obey before it counts
    Aggregate   A = sum_k A_k and b = sum_k b_k of all data so far
    solve       w_c = v_c / |v_c| with V = (A + lambda I)^-1 b, for features of usual length

Pure functions; the ledger decides what is added and which classes have which index.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from fleetledger.learning.numerics.exactness import FLOAT64_EXACT
from fleetledger.learning.numerics.influence import Moments
from fleetledger.learning.numerics.possible_moments import scatter_work
from fleetledger.methods.errors import ContributionError, MethodError
from fleetledger.methods.fed3r.aggregate import Fed3rAggregate
from fleetledger.methods.fed3r.checks import check_statistics
from fleetledger.methods.fed3r.messages import (
    Fed3rAssignment,
    LocalStatistics,
    decode_statistics,
    encode_statistics,
)
from fleetledger.methods.fed3r.steps import Sums
from fleetledger.methods.statistics.linear_head import LinearHead, rows_in_order
from fleetledger.methods.statistics.private_moments import denoised
from fleetledger.methods.statistics.sides import (
    FeatureMoments,
    MadeContribution,
    StatisticsCoordinator,
)
from fleetledger.methods.statistics.words import IntegerMoments, Words
from fleetledger.runtime.errors import SchemaError
from fleetledger.schemas.cohorts import MOST_MEMBERS
from fleetledger.schemas.values import ClassName

Integers = npt.NDArray[np.int64]


class Fed3rCoordinator(StatisticsCoordinator[Fed3rAssignment, LocalStatistics, Fed3rAggregate]):
    """Ridge regression on the backbone's own features."""

    assignment_type = Fed3rAssignment
    aggregate_type = Fed3rAggregate

    def check(self, assignment: Fed3rAssignment, payload: bytes) -> LocalStatistics:
        """Return the statistics in a payload after checking form and numbers.

        Raises `ContributionError` naming tensor, value and way out; then nothing of it may count.
        """
        statistics = _decoded(assignment, payload)
        _check(assignment, statistics)
        return statistics

    def read(self, assignment: Fed3rAssignment, payload: bytes) -> LocalStatistics:
        """Return the statistics in a payload of the right form, or in a cohort's sum.

        Raises `ContributionError`.
        """
        return _decoded(assignment, payload, MOST_MEMBERS)

    def from_words(
        self,
        assignment: Fed3rAssignment,
        words: Words,
        class_names: Sequence[ClassName],
        members: int,
    ) -> MadeContribution:
        """Return the payload of a cohort's sum."""
        moments = IntegerMoments.of_words(words, class_names, assignment.columns)
        statistics = LocalStatistics.of_moments(moments, members)
        made = MadeContribution.of(encode_statistics(statistics), statistics.samples_per_class)
        self.read(assignment, made.payload)
        return made

    def check_sum(self, assignment: Fed3rAssignment, payloads: Sequence[bytes]) -> None:
        """Raise `ContributionError` unless cohorts' sums, added, are those of samples."""
        together = Fed3rAggregate.empty(assignment)
        try:
            for payload in payloads:
                together += Fed3rAggregate.of(assignment, self.read(assignment, payload), stage=1)
        except MethodError as error:
            raise ContributionError(str(error)) from error
        names, counts, sums = together.classes.rows()
        moments = IntegerMoments(names, counts, sums.values, together.gram.values)
        _check(assignment, LocalStatistics.of_moments(moments, len(payloads)))

    def check_work(self, assignment: Fed3rAssignment) -> int:
        """Return the multiplications of the check that looks at the Gram matrix as a whole."""
        return scatter_work(assignment.columns)

    def solve(
        self,
        assignment: Fed3rAssignment,
        aggregate: Fed3rAggregate,
        class_order: Sequence[ClassName],
    ) -> LinearHead:
        """Return the head for the classes of `class_order`, row by row.

        Scores are cosines between a sample and the rows, for a sample of usual length: the root of
        the mean square of |h|.
        """
        rows = {}
        if aggregate.samples:
            solved = assignment.steps.rows(_sums(aggregate, private=assignment.noise is not None))
            rows = dict(zip(aggregate.samples, solved, strict=True))
        weights = rows_in_order(rows, class_order, aggregate.classes.columns)
        return LinearHead(weights, tuple(class_order))

    def judged_moments(
        self, assignment: Fed3rAssignment, aggregate: Fed3rAggregate, names: Sequence[ClassName]
    ) -> Moments | None:
        """Return G, P and the samples; None behind noise of privacy."""
        if assignment.noise is not None:
            return None
        gram, classes = aggregate.gram_matrix(), aggregate.classes
        exact = classes.largest <= FLOAT64_EXACT and aggregate.gram.largest <= FLOAT64_EXACT
        return Moments(gram, classes.columns_of(names), sum(classes.samples.values()), exact)

    def judged_ridge(self, assignment: Fed3rAssignment) -> float:
        """Return the ridge of the settings."""
        return assignment.settings.added_ridge

    def gram_triangle(
        self, assignment: Fed3rAssignment, aggregate: Fed3rAggregate
    ) -> Integers | None:
        """Return the exact triangle of G; None behind noise."""
        return aggregate.gram.values if assignment.noise is None else None

    def feature_moments(
        self, assignment: Fed3rAssignment, aggregate: Fed3rAggregate
    ) -> FeatureMoments:
        """Return how features lie over all samples."""
        del assignment
        return FeatureMoments.of(aggregate.gram_matrix(), *aggregate.classes.overall)


def _decoded(assignment: Fed3rAssignment, payload: bytes, most_members: int = 0) -> LocalStatistics:
    """Return the statistics in a payload; raise `ContributionError` for another form."""
    try:
        return decode_statistics(payload, assignment, most_members=most_members)
    except SchemaError as error:
        raise ContributionError(str(error)) from error


def _check(assignment: Fed3rAssignment, statistics: LocalStatistics) -> None:
    check_statistics(assignment, statistics)
    if assignment.steps.changes("check"):
        part = Fed3rAggregate.of(assignment, statistics, stage=1)
        assignment.steps.check(_sums(part))


def _sums(aggregate: Fed3rAggregate, *, private: bool = False) -> Sums:
    """Return the sums as numbers, of the classes that have samples."""
    samples = aggregate.samples
    columns = [aggregate.classes[name].correlation.to_float() for name in samples]
    counts = np.array(list(samples.values()), np.int64)
    gram = aggregate.gram_matrix()
    if private:
        gram = denoised(gram)
    return Sums(gram, np.stack(columns, axis=1), counts, tuple(samples))


COORDINATOR = Fed3rCoordinator()
