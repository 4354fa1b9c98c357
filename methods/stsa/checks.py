"""What statistics of real samples cannot violate, whoever sent them.

They bound what a broken or hostile device can do; they do not prove that the samples were real.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from learning.numerics.compact import CompactFactor, factor_gram, largest_gram_entry
from learning.numerics.exact_sum import ScaledIntegers
from learning.numerics.triangles import diagonal, pack_upper
from methods.errors import ContributionError
from methods.stsa.messages import LocalStatistics, StsaAssignment

Floats = npt.NDArray[np.float64]


def check_statistics(assignment: StsaAssignment, statistics: LocalStatistics) -> None:
    """Raise `ContributionError` unless the numbers could be those of real samples.

    The rules, with n_c samples of class c and n together:

    - behind the integer map, class sums are not negative; no sum exceeds n_c times the largest h
    - no diagonal entry of G is negative or exceeds n times the largest h squared
    - no entry exceeds what the two diagonal entries allow: G_ij^2 <= G_ii G_jj
    - no class sum exceeds what the diagonal allows: P_jc^2 <= n_c G_jj

    The last two leave one step for rounding. The compact form, which is rounded more, is positive
    semi-definite by its making, and only its diagonal is bounded. Raises `FeatureError` or
    `RangeError` for an R factor that does not fit its steps.
    """
    if assignment.integer:
        _check_class_sums(assignment, statistics)
    if isinstance(statistics.gram, CompactFactor):
        _check_factor(assignment, statistics, statistics.gram)
    else:
        _check_triangle(assignment, statistics, statistics.gram)


def _check_class_sums(assignment: StsaAssignment, statistics: LocalStatistics) -> None:
    ends = np.array([assignment.lowest, assignment.settings.largest])
    limits = statistics.counts[:, None] * ends
    sums = statistics.correlation.values
    bad = (sums < limits[:, :1]) | (sums > limits[:, 1:])
    if bad.any():
        row, column = np.argwhere(bad)[0]
        raise ContributionError(
            f"correlation: {sums[row, column]} for feature {column} of class "
            f"{statistics.class_names[row]!r}; {statistics.counts[row]} samples give "
            f"{limits[row, 0]} to {limits[row, 1]}"
        )


def _check_diagonal(values: npt.NDArray[np.int64], largest: int) -> None:
    bad = (values < 0) | (values > largest)
    if bad.any():
        index = int(bad.argmax())
        raise ContributionError(
            f"gram: {values[index]} on the diagonal at {index}; these samples give 0 to {largest}"
        )


def _check_factor(
    assignment: StsaAssignment, statistics: LocalStatistics, factor: CompactFactor
) -> None:
    columns, steps = assignment.columns, assignment.row_steps
    gram = factor_gram(factor, steps)
    largest = assignment.settings.largest
    bound = largest_gram_entry(statistics.samples, columns, largest, steps)
    _check_diagonal(diagonal(gram.values, columns), bound)


def _check_triangle(
    assignment: StsaAssignment, statistics: LocalStatistics, gram: ScaledIntegers
) -> None:
    squares = diagonal(gram.values, assignment.columns)
    largest = assignment.largest_gram
    if assignment.integer:
        largest = statistics.samples * assignment.settings.largest**2
    _check_diagonal(squares, largest)
    lengths = np.sqrt(squares + 1.0)
    allowed = pack_upper(lengths[:, None] * lengths) * (1 + 1e-12) + 1
    bad = np.abs(gram.values) > allowed
    if bad.any():
        index = int(bad.argmax())
        raise ContributionError(
            f"gram: {gram.values[index]} at {index} of the triangle; its diagonal allows at most "
            f"{int(allowed[index])}"
        )
    _check_sums_by_diagonal(statistics, np.sqrt(np.ldexp(squares + 1.0, gram.exponent)))


def _check_sums_by_diagonal(statistics: LocalStatistics, lengths: Floats) -> None:
    """Check P against `lengths` (M,), the square roots of the diagonal of G."""
    step = float(np.ldexp(1.0, statistics.correlation.exponent))
    allowed = np.sqrt(statistics.counts)[:, None] * lengths * (1 + 1e-12) + step
    sums = statistics.correlation.to_float()
    bad = np.abs(sums) > allowed
    if bad.any():
        row, column = np.argwhere(bad)[0]
        raise ContributionError(
            f"correlation: {sums[row, column]:g} for feature {column} of class "
            f"{statistics.class_names[row]!r}; the Gram matrix allows at most "
            f"{allowed[row, column]:g}"
        )
