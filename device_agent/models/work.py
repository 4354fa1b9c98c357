"""Computing a part: pictures, frozen model, and the method's device side; nothing leaves memory.

Features of a part are needed once, so they are in no cache: what a device that sends statistics
has on its disk are its images and sums.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import compress
from pathlib import Path

import numpy as np

from fleetledger.device_agent.core.records import ImageToCount
from fleetledger.device_agent.models.features.extractor import FrozenExtractor
from fleetledger.device_agent.models.inference.installed_model import Floats, Frozen
from fleetledger.methods.statistics.part import PartContext
from fleetledger.schemas.assignments import Assignment
from fleetledger.schemas.values import ClassName, Digest


@dataclass(frozen=True)
class Extracted:
    """Features (N, M) with the class name of each row, and what could not be read."""

    features: Floats
    labels: tuple[ClassName, ...]
    used: frozenset[Digest]
    unusable: tuple[tuple[Digest, str], ...]
    unanswered: tuple[Digest, ...] = ()
    """Images that can be read, and of which the frozen model makes no finite features."""
    rows: tuple[ImageToCount, ...] = ()
    """The image of each row."""

    def context(self, context: PartContext) -> PartContext:
        """Return what a method is told, with the companions of each row where any has some."""
        told = tuple(image.told for image in self.rows)
        return replace(context, told=told) if any(told) else context


def extract(
    assignment: Assignment, images: Sequence[ImageToCount], folder: Path, frozen: Frozen, batch: int
) -> Extracted:
    """Return the features of all images that can be read and are still what they were.

    Classes of which too few are left for a part are left out. Of images that were in a payload
    before all are used or none, since they were chosen together (`core.companions`). Raises
    `LoadError` where the frozen model does not run.
    """
    extractor = FrozenExtractor(folder, assignment.preprocessing, frozen, batch)
    batches = list(extractor.features(images))
    features = np.concatenate([batch.features for batch in batches])
    readable = [image for batch in batches for image in batch.images]
    numbers = Counter(image.class_name for image in readable)
    bound = len(readable) < len(images) and any(image.told for image in images)
    least = len(images) + 1 if bound else assignment.min_samples_per_class
    enough = [numbers[image.class_name] >= least for image in readable]
    kept = list(compress(readable, enough))
    return Extracted(
        features if all(enough) else features[enough],
        tuple(image.class_name for image in kept),
        frozenset(image.digest for image in kept),
        tuple(item for batch in batches for item in batch.unusable),
        tuple(item for batch in batches for item in batch.unanswered),
        tuple(kept),
    )
