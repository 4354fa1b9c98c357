"""The pooled head on a device: features with their classes, or moments of each class.

    finish   F_k,c, the features of the device's samples of class c; or n_k,c with the sums of h
             and of h^2, from which mean and variance follow

Pure functions: features come from `frozen.onnx` by way of the agent, the payload goes back to it.
The agent asks for this only where its owner allows features to leave the device.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fleetledger.learning.numerics.gram import class_sums
from fleetledger.methods.pooled.messages import (
    ClassFeatures,
    ClassMoments,
    PooledAssignment,
    encode_published,
)
from fleetledger.methods.pooled.rows import sorted_rows
from fleetledger.methods.statistics.class_sums import checked_samples, refuse_forms
from fleetledger.methods.statistics.part import NO_CONTEXT, PartContext
from fleetledger.methods.statistics.sides import Features, MadeContribution, StatisticsDevice


class PooledDevice(StatisticsDevice[PooledAssignment]):
    """Sends features, or moments of classes."""

    assignment_type = PooledAssignment

    def finish(
        self,
        assignment: PooledAssignment,
        features: Features,
        labels: Sequence[str],
        context: PartContext = NO_CONTEXT,
    ) -> MadeContribution:
        """Return the contribution of `features` h (n, M) with one class name per sample.

        The order of the samples does not show in it. Raises `MethodError` naming what is wrong.
        """
        refuse_forms(context)
        h, names, classes, counts = checked_samples(assignment, features, labels)
        part: ClassFeatures | ClassMoments
        if assignment.settings.publish == "features":
            each = [sorted_rows(h[classes == index].astype(np.int8)) for index in range(len(names))]
            part = ClassFeatures(names, counts, np.concatenate(each))
        else:
            sums, squares = (class_sums(values, classes, len(names)) for values in (h, h * h))
            part = ClassMoments(names, counts, sums, squares)
        return MadeContribution.of(encode_published(part), part.samples_per_class)


DEVICE = PooledDevice()
