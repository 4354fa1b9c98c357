"""The pooled head at the coordinator: check contributions, keep them, fit one classifier.

    check       what a contribution must obey before it counts
    Aggregate   F_c, all features of class c; or N_c with the sums of h and of h^2
    solve       W, multinomial logistic regression with an L2 penalty on all F_c; or on draws from
                N(m_c, diag v_c), as many for every class

Pure functions; the ledger decides what is added and which classes have which index.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fleetledger.learning.numerics.integer_features import QUANTISED_LARGEST
from fleetledger.learning.numerics.logistic import (
    SCORE_ARRAYS,
    WEIGHT_ARRAYS,
    LogisticFit,
    LogisticRule,
    fit_logistic,
)
from fleetledger.methods.errors import ContributionError, MethodError
from fleetledger.methods.pooled.aggregate import PooledAggregate
from fleetledger.methods.pooled.checks import check_published
from fleetledger.methods.pooled.messages import PooledAssignment, Published, decode_published
from fleetledger.methods.pooled.settings import PooledSettings
from fleetledger.methods.statistics.linear_head import LinearHead, rows_in_order
from fleetledger.methods.statistics.sides import StatisticsCoordinator
from fleetledger.runtime.count_words import count_of
from fleetledger.runtime.errors import SchemaError
from fleetledger.schemas.values import ClassName

_UNIT = 1 / QUANTISED_LARGEST
"""The head is fitted to features of which the largest of an image is 1."""


class PooledCoordinator(StatisticsCoordinator[PooledAssignment, Published, PooledAggregate]):
    """Logistic regression on what devices publish."""

    assignment_type = PooledAssignment
    aggregate_type = PooledAggregate

    def check(self, assignment: PooledAssignment, payload: bytes) -> Published:
        """Return what a payload holds; raise `ContributionError` unless samples can have it."""
        try:
            part = decode_published(payload, assignment)
        except SchemaError as error:
            raise ContributionError(str(error)) from error
        check_published(part)
        return part

    def solve(
        self,
        assignment: PooledAssignment,
        aggregate: PooledAggregate,
        class_order: Sequence[ClassName],
    ) -> LinearHead:
        """Return the head for the classes of `class_order`, row by row.

        A head that is not fitted to the end says so in its remarks. Raises `MethodError` likewise
        when the fit would take too much memory.
        """
        settings, names = assignment.settings, tuple(aggregate.samples)
        rows, remarks = {}, tuple[str, ...]()
        if names:
            _check_memory(aggregate, settings)
            blocks = [aggregate.rows(name, settings.draws_per_class) for name in names]
            classes = np.repeat(np.arange(len(names)), [len(block) for block in blocks])
            fit = fit_logistic(np.concatenate(blocks), classes, settings.rule, unit=_UNIT)
            rows = dict(zip(names, fit.weights * _UNIT, strict=True))
            remarks = _remarks(fit, settings.rule)
        weights = rows_in_order(rows, class_order, aggregate.columns)
        return LinearHead(weights, tuple(class_order), remarks=remarks)


COORDINATOR = PooledCoordinator()


def _check_memory(aggregate: PooledAggregate, settings: PooledSettings) -> None:
    """Raise `MethodError` where features, scores and weights would leave the bound."""
    classes, columns = len(aggregate.samples), aggregate.columns
    fitted = aggregate.features.total or classes * settings.draws_per_class
    scores, weights = 8 * SCORE_ARRAYS * fitted * classes, 8 * WEIGHT_ARRAYS * classes * columns
    needed = 3 * fitted * columns + scores + weights  # rows as kept, in their order, and together
    if needed > settings.memory_bytes:
        raise MethodError(
            f"memory_megabytes: {settings.memory_megabytes}; a head of "
            f"{count_of(classes, 'class', 'classes')} from {count_of(fitted, 'sample')} of "
            f"{count_of(columns, 'feature')} takes {-(-needed >> 20)}: let a new lineage allow "
            "more, or publish moments, with fewer draws_per_class"
        )


def _remarks(fit: LogisticFit, rule: LogisticRule) -> tuple[str, ...]:
    if fit.converged:
        return ()
    return (
        f"the head is not fitted to the end: the gradient is {fit.gradient:.1e} after "
        f"{count_of(fit.iterations, 'step')}, tolerance is {rule.tolerance:.1e}; more "
        "max_iterations or a larger l2 end it",
    )
