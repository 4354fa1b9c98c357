"""Fed3R on a device: one pass over local samples gives sums, and that is all it sends.

    finish   A_k = H_k^T H_k and b_k = H_k^T Y_k, as integers

Pure functions: features come from `frozen.onnx` by way of the agent, the payload goes back to it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fleetledger.learning.errors import LearningError
from fleetledger.learning.numerics.gram import class_sums, gram_triangle
from fleetledger.learning.numerics.integer_features import QUANTISED_LARGEST
from fleetledger.methods.errors import MethodError
from fleetledger.methods.fed3r.messages import (
    Fed3rAssignment,
    LocalStatistics,
    decode_statistics,
    encode_statistics,
)
from fleetledger.methods.statistics.class_sums import (
    ClassSums,
    checked_samples,
    refuse_forms,
    sum_classes,
)
from fleetledger.methods.statistics.part import NO_CONTEXT, PartContext
from fleetledger.methods.statistics.private_moments import (
    MomentNoise,
    clipped,
    every_class,
    noise_of,
)
from fleetledger.methods.statistics.sides import Features, MadeContribution, StatisticsDevice
from fleetledger.methods.statistics.words import Words
from fleetledger.schemas.values import ClassName


class Fed3rDevice(StatisticsDevice[Fed3rAssignment]):
    """Sends a Gram matrix and class sums."""

    assignment_type = Fed3rAssignment

    def finish(
        self,
        assignment: Fed3rAssignment,
        features: Features,
        labels: Sequence[str],
        context: PartContext = NO_CONTEXT,
    ) -> MadeContribution:
        """Return the contribution of `features` h (n, M) with one class name per sample.

        Raises `MethodError` naming what is wrong.
        """
        refuse_forms(context)
        private = noise_of(assignment)
        try:
            if private is not None:
                return _with_noise(assignment, private, features, labels, context)
            h, classes = sum_classes(assignment, features, labels)
            gram = gram_triangle(h, QUANTISED_LARGEST)
        except LearningError as error:
            raise MethodError(str(error)) from error
        statistics = LocalStatistics(classes, gram)
        return MadeContribution.of(encode_statistics(statistics), statistics.samples_per_class)

    def to_words(
        self, assignment: Fed3rAssignment, payload: bytes, class_names: Sequence[ClassName]
    ) -> Words:
        """Return a payload as words; raise `MethodError` for a class without a place."""
        return decode_statistics(payload, assignment).moments().to_words(class_names)


def _with_noise(
    assignment: Fed3rAssignment,
    private: MomentNoise,
    features: Features,
    labels: Sequence[str],
    context: PartContext,
) -> MadeContribution:
    """Return the contribution with clipped features, every class and noise on all numbers."""
    h, names, classes, _ = checked_samples(assignment, features, labels)
    h = clipped(h, private.squared_length)
    names, classes = every_class(context.class_names, names, classes)
    counts = np.bincount(classes, minlength=len(names)).astype(np.int64)
    sums = class_sums(h, classes, len(names)) + private.on_sums((len(names), h.shape[1]))
    noisy = private.noisy(counts, assignment.settings.max_samples_per_part)
    gram = gram_triangle(h, QUANTISED_LARGEST) + private.on_triangle(h.shape[1])
    statistics = LocalStatistics(ClassSums(names, noisy, sums), gram)
    return MadeContribution.of(encode_statistics(statistics), statistics.samples_per_class)


DEVICE = Fed3rDevice()
