"""FedNCM at the coordinator: check contributions, add them up, take means.

    check       what a contribution must obey before it counts
    Aggregate   S_c = sum_k S_k,c and N_c = sum_k n_k,c of all data so far
    solve       w_c = m_c / |m_c| with m_c = S_c / N_c, for features of usual length

Pure functions; the ledger decides what is added and which classes have which index.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

import numpy as np
from typing_extensions import Self

from fleetledger.learning.numerics.exact_sum import ScaledIntegers
from fleetledger.methods.fedncm.messages import FedncmAssignment
from fleetledger.methods.statistics.class_sums import ClassSums, check_sums
from fleetledger.methods.statistics.class_totals import ClassTotals, totals_digest
from fleetledger.methods.statistics.linear_head import LinearHead, cosine_weights, rows_in_order
from fleetledger.methods.statistics.sides import StatisticsCoordinator
from fleetledger.schemas.values import ClassName, Digest


class FedncmAggregate(ClassTotals):
    """Exact sums of features and numbers of samples, by class."""

    @classmethod
    def empty(cls, assignment: FedncmAssignment) -> Self:
        """Return the aggregate of no data."""
        return cls(assignment.columns)

    @classmethod
    def of(cls, assignment: FedncmAssignment, statistics: ClassSums, stage: int) -> Self:
        """Return the aggregate of one contribution; the stage it was made in does not matter."""
        sums = ScaledIntegers(statistics.sums)
        return cls.of_rows(statistics.class_names, sums, statistics.counts)

    @property
    def digest(self) -> Digest:
        """The SHA-256 of the sums, whatever order they were added in."""
        return totals_digest(self, "fedncm-aggregate-1")


class FedncmCoordinator(StatisticsCoordinator[FedncmAssignment, ClassSums, FedncmAggregate]):
    """Class means, at one length."""

    assignment_type = FedncmAssignment
    aggregate_type = FedncmAggregate

    def check(self, assignment: FedncmAssignment, payload: bytes) -> ClassSums:
        """Return the sums in a payload; raise `ContributionError` unless samples can have them."""
        return check_sums(assignment, payload)

    def solve(
        self,
        assignment: FedncmAssignment,
        aggregate: FedncmAggregate,
        class_order: Sequence[ClassName],
    ) -> LinearHead:
        """Return the head for the classes of `class_order`: every class's mean, at one length.

        Scores are cosines between a sample and the means, for a sample as long as means usually
        are: the root of the mean square of |m_c|, weighted by samples.
        """
        samples = aggregate.samples
        means = {
            name: aggregate[name].correlation.to_float() / count for name, count in samples.items()
        }
        rows = {}
        if means:
            squares = sum(samples[name] * float(mean @ mean) for name, mean in means.items())
            usual = sqrt(squares / sum(samples.values()))
            weights = cosine_weights(np.stack(list(means.values()), axis=1), usual)
            rows = dict(zip(means, weights.T, strict=True))
        return LinearHead(rows_in_order(rows, class_order, aggregate.columns), tuple(class_order))


COORDINATOR = FedncmCoordinator()
