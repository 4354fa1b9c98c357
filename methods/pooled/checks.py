"""Rules that features and moments of real samples obey.

They bound what a broken or hostile device can do; they do not prove that the samples were images.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fleetledger.learning.numerics.integer_features import QUANTISED_LARGEST
from fleetledger.learning.numerics.possible_moments import least_squares
from fleetledger.methods.errors import ContributionError
from fleetledger.methods.pooled.messages import ClassFeatures, ClassMoments, Published
from fleetledger.methods.pooled.rows import sorted_rows
from fleetledger.methods.statistics.class_sums import check_size_of_sums
from fleetledger.runtime.count_words import count_of


def check_published(part: Published) -> None:
    """Raise `ContributionError` unless the numbers could be those of real samples.

    The rules, with n samples of a class:

    - no feature is -128, and features of a class lie in the order of their bytes, so that equal
      data are equal payloads
    - no sum exceeds 127 n; no sum of squares exceeds 127^2 n or is less than that of n integers
      as equal as can be, and both are odd or both even, as h and h^2 are
    """
    if isinstance(part, ClassFeatures):
        _check_features(part)
    else:
        check_size_of_sums("sums", part.class_names, part.counts, part.sums)
        _check_squares(part)


def _check_features(part: ClassFeatures) -> None:
    if part.features.min() < -QUANTISED_LARGEST:
        raise ContributionError(
            f"features: {part.features.min()}; give integers from -{QUANTISED_LARGEST} to "
            f"{QUANTISED_LARGEST}"
        )
    for name, rows in part.by_class.items():
        if not np.array_equal(rows, sorted_rows(rows)):
            raise ContributionError(
                f"features: those of class {name!r} are not sorted; give them in the order of "
                "their bytes"
            )


def _check_squares(part: ClassMoments) -> None:
    too_large = part.squares > part.counts[:, np.newaxis] * QUANTISED_LARGEST**2
    too_small = part.squares < least_squares(part.sums, part.counts)
    _refuse(part, too_large | too_small | ((part.squares - part.sums) % 2 != 0))


def _refuse(part: ClassMoments, bad: npt.NDArray[np.bool_]) -> None:
    if bad.any():
        row, column = np.argwhere(bad)[0]
        raise ContributionError(
            f"squares: {part.squares[row, column]} for feature {column} of class "
            f"{part.class_names[row]!r}; {count_of(part.counts[row], 'sample')} with a sum of "
            f"{part.sums[row, column]} cannot have it"
        )
