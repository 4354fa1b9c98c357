"""Pictures through a frozen model, a few at a time; what is kept of each is one row of features."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fleetledger.device_agent.core.records import ImageToCount
from fleetledger.device_agent.models.inference.installed_model import Floats, Frozen
from fleetledger.device_agent.models.sample_answers import each_alone
from fleetledger.device_agent.samples.images import read_pictures
from fleetledger.device_agent.samples.sources.folder import picture_files
from fleetledger.schemas.models import AnyPreprocessing
from fleetledger.schemas.values import Digest


@dataclass(frozen=True, eq=False)
class Computed:
    """Features of the images of one batch that could be read, a row each, and what could not."""

    features: Floats
    images: tuple[ImageToCount, ...]
    unusable: tuple[tuple[Digest, str], ...]
    unanswered: tuple[Digest, ...] = ()
    """Images that can be read, and of which the frozen model makes no finite features."""


@dataclass(frozen=True)
class FrozenExtractor:
    """Makes features of images that lie in `folder`."""

    folder: Path
    preprocessing: AnyPreprocessing
    frozen: Frozen
    batch: int
    """Images that are in memory at a time."""

    def features(self, images: Sequence[ImageToCount]) -> Iterator[Computed]:
        """Yield the features of each batch; files that are gone or have changed are left out.

        Raises `LoadError` where the frozen model does not run.
        """
        for start in range(0, len(images), self.batch):
            yield self._batch(images[start : start + self.batch])

    def _batch(self, images: Sequence[ImageToCount]) -> Computed:
        pixels, readable, unusable = [], [], []
        for outcome in read_pictures(picture_files(images, self.folder), self.preprocessing):
            image = images[outcome.index]
            if outcome.pixels is not None:
                pixels.append(outcome.pixels)
                readable.append(image)
            elif outcome.unusable is not None:
                unusable.append((image.digest, outcome.unusable))
        if not pixels:
            return Computed(self.frozen.no_features(), (), tuple(unusable))
        rows = each_alone(self.frozen.features, np.stack(pixels))
        kept = [(row, image) for row, image in zip(rows, readable, strict=True) if row is not None]
        return Computed(
            np.stack([row for row, _ in kept]) if kept else self.frozen.no_features(),
            tuple(image for _, image in kept),
            tuple(unusable),
            tuple(i.digest for i, row in zip(readable, rows, strict=True) if row is None),
        )
