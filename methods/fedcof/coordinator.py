"""FedCOF at the coordinator: check contributions, keep their class sums, solve for the head.

    check       what a contribution must obey before it counts
    Aggregate   n_k,c m_k,c of all contributions so far
    solve       w_c = v_c / |v_c| with V = G^-1 B, for features of usual length,
                G = N m m^T + sum_c (N_c - 1) (Sigma^_c + gamma I), B_c = N_c m_c

Pure functions; the ledger decides what is added and which classes have which index.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import sqrt

import numpy as np
import numpy.typing as npt

from fleetledger.learning.errors import LearningError
from fleetledger.learning.numerics.estimated_gram import ClassGroups, within_scatter
from fleetledger.learning.numerics.ridge import solve_ridge
from fleetledger.methods.errors import MethodError
from fleetledger.methods.fedcof.aggregate import FedcofAggregate
from fleetledger.methods.fedcof.messages import FedcofAssignment
from fleetledger.methods.fedcof.settings import FedcofSettings
from fleetledger.methods.statistics.class_sums import ClassSums, check_sums
from fleetledger.methods.statistics.linear_head import LinearHead, cosine_weights, rows_in_order
from fleetledger.methods.statistics.sides import StatisticsCoordinator
from fleetledger.schemas.values import ClassName

MAX_REMARKS = 10
"""More classes than this are only counted in a head's remarks."""

Floats = npt.NDArray[np.float64]


class FedcofCoordinator(StatisticsCoordinator[FedcofAssignment, ClassSums, FedcofAggregate]):
    """Ridge regression with covariances estimated from class means."""

    assignment_type = FedcofAssignment
    aggregate_type = FedcofAggregate

    def check(self, assignment: FedcofAssignment, payload: bytes) -> ClassSums:
        """Return the sums in a payload; raise `ContributionError` unless samples can have them."""
        return check_sums(assignment, payload)

    def solve(
        self,
        assignment: FedcofAssignment,
        aggregate: FedcofAggregate,
        class_order: Sequence[ClassName],
    ) -> LinearHead:
        """Return the head for the classes of `class_order`, row by row.

        Scores are cosines between a sample and the rows, for a sample as long as class means
        usually are: the root of the mean square of |m_c|, weighted by samples.
        """
        groups = {name: aggregate.groups(name) for name in aggregate.samples}
        rows = {}
        if groups:
            solution = _solve(list(groups.values()), aggregate.columns, assignment.settings)
            rows = dict(zip(groups, solution.T, strict=True))
        weights = rows_in_order(rows, class_order, aggregate.columns)
        return LinearHead(weights, tuple(class_order), remarks=_remarks(groups))


COORDINATOR = FedcofCoordinator()


def _solve(classes: Sequence[ClassGroups], columns: int, settings: FedcofSettings) -> Floats:
    """Return W (M x C) for the classes, in their order."""
    counts = np.array([groups.samples for groups in classes], np.float64)
    sums = np.stack([groups.sums.sum(axis=0) for groups in classes], axis=1)
    total = sums.sum(axis=1)
    gram = np.outer(total, total) / counts.sum() + within_scatter(classes, columns)
    try:
        solution = solve_ridge(gram, sums, settings.added_variance * float((counts - 1).sum()))
    except LearningError as error:
        raise MethodError(f"shrinkage: {settings.shrinkage:g}: {error}") from error
    usual = sqrt(float((sums**2 / counts).sum() / counts.sum()))
    return cosine_weights(solution, usual)


def _remarks(groups: Mapping[ClassName, ClassGroups]) -> tuple[str, ...]:
    """Name the classes whose covariance could not be estimated."""
    lone = [name for name, held in groups.items() if held.holders == 1]
    told = [
        f"class {name!r} has one contribution: of its covariance only the shrinkage is known"
        for name in lone[:MAX_REMARKS]
    ]
    return (*told, f"and {len(lone) - MAX_REMARKS} more") if len(lone) > MAX_REMARKS else (*told,)
