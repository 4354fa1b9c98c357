"""Rules that statistics of real samples obey: a payload is the moments of some samples.

They bound what a broken or hostile device can do; they do not prove that the samples were images.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, ldexp, sqrt

import numpy as np
import numpy.typing as npt

from fleetledger.learning.numerics.class_scatter import mean_rows
from fleetledger.learning.numerics.compact import (
    CompactFactor,
    check_steps,
    factor_diagonal,
    largest_gram_entry,
    rounding_length,
)
from fleetledger.learning.numerics.exact_sum import ScaledIntegers
from fleetledger.learning.numerics.possible_moments import (
    MomentRoom,
    check_integer_moments,
    check_scatter,
    float_room,
)
from fleetledger.learning.numerics.triangles import symmetric
from fleetledger.methods.errors import ContributionError
from fleetledger.methods.statistics.private_moments import check_private, largest_noise
from fleetledger.methods.stsa.group_sums import GroupSums
from fleetledger.methods.stsa.messages import LocalStatistics, StsaAssignment
from fleetledger.methods.stsa.noise import NoiseSizes

Integers = npt.NDArray[np.int64]


def check_statistics(assignment: StsaAssignment, statistics: LocalStatistics) -> None:
    """Raise `ContributionError` unless the numbers could be those of real samples.

    - class sums lie between n_c times the lowest and the largest h; in the estimated form this
      holds for every group's sum, and is the whole rule
    - form exact: G lies beside P and the counts as that of samples does, to the last integer
      (`learning.numerics.possible_moments`); where noise or the Gaussian map rounds, within a
      proved room
    - with noise of privacy: as form exact, within a proved room
    - form compact: by its making, G is that of samples with these class means; no step of a row
      is coarser than it must be, and no column of R is longer than class sums allow

    Raises `MomentsError`, and `FeatureError` or `RangeError` for an R factor that does not fit its
    steps.
    """
    gram = statistics.gram
    if assignment.noise is not None:
        moments, largest = statistics.moments(), assignment.settings.largest
        check_private(assignment, moments, largest, statistics.members)
        return
    if isinstance(gram, GroupSums):
        _check_sums(assignment, _row_names(statistics, gram), gram.counts, gram.sums)
        return
    _check_sums(assignment, statistics.class_names, statistics.counts, statistics.correlation)
    if isinstance(gram, CompactFactor):
        _check_factor(assignment, statistics, gram)
    else:
        _check_triangle(assignment, statistics, gram)


def _row_names(statistics: LocalStatistics, groups: GroupSums) -> Sequence[str]:
    """Return the class name of each row of the groups' sums."""
    return [str(name) for name in np.repeat(statistics.class_names, groups.per_class)]


def _check_sums(
    assignment: StsaAssignment, names: Sequence[str], counts: Integers, sums: ScaledIntegers
) -> None:
    """Check sums (R x M) of integer features over `counts` (R,) samples of the classes `names`."""
    noise = NoiseSizes.of(assignment.settings)
    if not assignment.integer:
        _check_floats(names, sums, largest_noise(noise.sums))
        return
    ends = np.array([assignment.lowest, assignment.settings.largest])
    room = np.array([-1, 1]) * largest_noise(noise.sums)
    limits = (counts + _lacking(noise, counts, assignment))[:, None] * ends + room
    bad = (sums.values < limits[:, :1]) | (sums.values > limits[:, 1:])
    if bad.any():
        row, column = np.argwhere(bad)[0]
        raise ContributionError(
            f"correlation: {sums.values[row, column]} for feature {column} of class "
            f"{names[row]!r}; {counts[row]} samples give {limits[row, 0]} to {limits[row, 1]}"
        )


def _check_floats(names: Sequence[str], sums: ScaledIntegers, room: int) -> None:
    """Check sums (R x M) of features behind the Gaussian map, h = relu(..)."""
    numbers = sums.to_float()
    if numbers.min(initial=0.0) < -room:
        row, column = np.argwhere(numbers < -room)[0]
        raise ContributionError(
            f"correlation: {numbers[row, column]:g} for feature {column} of class {names[row]!r}; "
            f"features behind the map are not negative, so give {-room} or more"
        )


def _check_diagonal(values: Integers, largest: int) -> None:
    bad = values > largest
    if bad.any():
        index = int(bad.argmax())
        raise ContributionError(
            f"gram: {values[index]} on the diagonal at {index}; these samples give at most "
            f"{largest}"
        )


def _check_factor(
    assignment: StsaAssignment, statistics: LocalStatistics, factor: CompactFactor
) -> None:
    """Check the factor's steps, and the length of its columns beside the class sums.

    The sum of squares within a class is at most n_c (high - m)(m - low) for a mean of m.
    """
    steps, columns = assignment.row_steps, assignment.columns
    low, high = assignment.lowest, assignment.settings.largest
    squares = factor_diagonal(factor, steps)
    check_steps(factor, steps)
    counts, sums = statistics.counts[:, None], statistics.correlation.values
    within = ((counts * high - sums) * (sums - counts * low) / counts).sum(axis=0)
    slack = max(1e-8, 40 * columns**2 * 2.0**-53)  # of a QR factorisation in float64
    allowed = (np.sqrt(within) + rounding_length(factor)) * (1 + slack)
    lengths = np.ldexp(np.sqrt(squares), steps.finest)
    bad = lengths > allowed
    if bad.any():
        index = int(bad.argmax())
        raise ContributionError(
            f"factor: column {index} has the length {lengths[index]:g}; samples with these class "
            f"sums give at most {allowed[index]:g}"
        )
    means = mean_rows(sums, statistics.counts, steps.finest)
    bound = largest_gram_entry(statistics.samples, columns, high, steps)
    _check_diagonal(squares + np.square(means).sum(axis=0).astype(np.int64), bound)


def _check_triangle(
    assignment: StsaAssignment, statistics: LocalStatistics, gram: ScaledIntegers
) -> None:
    sums, counts = statistics.correlation, statistics.counts
    matrix = symmetric(gram.to_float(), assignment.columns)
    if assignment.integer and assignment.settings.noise == "none":
        ends = (assignment.lowest, assignment.settings.largest)
        check_integer_moments(matrix, sums.values, counts, ends)
        return
    noise = NoiseSizes.of(assignment.settings)
    least, most = _ends_of_products(assignment, statistics, noise)
    bad = (matrix < least) | (matrix > most)
    if bad.any():
        i, j = np.argwhere(bad)[0]
        raise ContributionError(
            f"gram: {matrix[i, j]:g} for features {i} and {j}; these samples give {least:g} to "
            f"{most:g}"
        )
    room = _room(assignment, statistics, gram, float(np.trace(matrix)))
    check_scatter(matrix, sums.to_float(), counts.astype(np.float64), room)


def _ends_of_products(
    assignment: StsaAssignment, statistics: LocalStatistics, noise: NoiseSizes
) -> tuple[float, float]:
    """Return the least and the largest entry of G that noise leaves possible."""
    settings, room = assignment.settings, largest_noise(noise.gram)
    if not assignment.integer:
        return -room, inf
    samples = statistics.samples + len(statistics.counts) * largest_noise(noise.counts)
    most = min(samples, settings.max_samples_per_part) * settings.largest**2 + room
    return -room if assignment.lowest == 0 else -most, most


def _room(
    assignment: StsaAssignment, statistics: LocalStatistics, gram: ScaledIntegers, trace: float
) -> MomentRoom:
    """Return how far rounding and noise put told moments from those of samples, in norms.

    Of a matrix of noise with deviation s, the norm exceeds s (sqrt M + sqrt C + 10) once in 10^21
    (Gaussian concentration), and of a symmetric one s (sqrt(2 M) + 10); rounding moves an entry by
    half a step.
    """
    columns, classes = assignment.columns, len(statistics.counts)
    noise = NoiseSizes.of(assignment.settings)
    lacking = float(_lacking(noise, statistics.counts, assignment))
    if assignment.integer and not noise.sums:
        return MomentRoom(counts=lacking)
    steps = [ldexp(0.5, numbers.exponent) for numbers in (gram, statistics.correlation)]
    of_gram = noise.gram * (sqrt(2 * columns) + 10) + columns * steps[0]
    of_sums = noise.sums * (sqrt(columns) + sqrt(classes) + 10) + sqrt(columns * classes) * steps[1]
    if not assignment.integer:
        computed = float_room(statistics.samples, trace)
        of_gram, of_sums = of_gram + computed[0], of_sums + computed[1]
    return MomentRoom(of_gram, of_sums, lacking)


def _lacking(noise: NoiseSizes, counts: Integers, assignment: StsaAssignment) -> int:
    """Return how many samples noise may have taken from a count.

    Counts that reach the most of a part may have been cut back by what all of them had gained.
    """
    room = largest_noise(noise.counts)
    full = int(counts.sum()) == assignment.settings.max_samples_per_part
    return room * (1 + len(counts)) if full else room
