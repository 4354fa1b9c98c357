"""Rules that statistics of real samples obey: a payload is the moments of some samples.

They bound what a broken or hostile device can do; they do not prove that the samples were images.
"""

from __future__ import annotations

import numpy as np

from fleetledger.learning.errors import LearningError
from fleetledger.learning.numerics.integer_features import QUANTISED_LARGEST
from fleetledger.learning.numerics.possible_moments import check_integer_moments
from fleetledger.learning.numerics.triangles import symmetric
from fleetledger.methods.errors import ContributionError
from fleetledger.methods.fed3r.messages import Fed3rAssignment, LocalStatistics
from fleetledger.methods.statistics.class_sums import check_size_of_sums
from fleetledger.methods.statistics.private_moments import check_private


def check_statistics(assignment: Fed3rAssignment, statistics: LocalStatistics) -> None:
    """Raise `ContributionError` unless the numbers could be those of real samples.

    No class sum exceeds n_c times 127, and G lies beside sums and counts as that of samples does,
    to the last integer (`learning.numerics.possible_moments`); with noise of privacy, both within
    a proved room.
    """
    classes = statistics.classes
    ends = (-QUANTISED_LARGEST, QUANTISED_LARGEST)
    try:
        if check_private(assignment, statistics.moments(), QUANTISED_LARGEST, statistics.members):
            return
        check_size_of_sums("sums", classes.class_names, classes.counts, classes.sums)
        gram = symmetric(statistics.gram.astype(np.float64), classes.sums.shape[1])
        check_integer_moments(gram, classes.sums, classes.counts, ends)
    except LearningError as error:
        raise ContributionError(str(error)) from error
