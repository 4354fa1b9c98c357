"""Features of many images: those that the cache holds, and the rest computed and kept."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from fleetledger.device_agent.core.records import ImageToCount
from fleetledger.device_agent.models.features.cache import FeatureCache, source_digest
from fleetledger.device_agent.models.features.extractor import FrozenExtractor
from fleetledger.device_agent.models.inference.installed_model import Floats
from fleetledger.schemas.values import Digest

_AT_ONCE = 256
"""Images that are looked up together."""


@dataclass(frozen=True, eq=False)
class ReadFeatures:
    """Features (N, d) of the images that could be read, in their order, and what could not be."""

    features: Floats
    images: tuple[ImageToCount, ...]
    unusable: tuple[tuple[Digest, str], ...]
    unanswered: tuple[Digest, ...] = ()
    """Images of which the frozen model makes no finite features."""
    trouble: str = ""
    """Why the cache could not be used; empty where it could."""


class FeatureReader:
    """Reads features of one frozen model and its preprocessing."""

    def __init__(self, backbone: Digest, extractor: FrozenExtractor, cache: FeatureCache) -> None:
        self._source = source_digest(backbone, extractor.preprocessing)
        self._extractor = extractor
        self._cache = cache
        self._unusable: list[tuple[Digest, str]] = []
        self._unanswered: list[Digest] = []
        self._trouble = ""

    def read(self, images: Sequence[ImageToCount]) -> ReadFeatures:
        """Return the features of all images that are known or can be read.

        Raises `LoadError` where the frozen model does not run.
        """
        blocks = [self._extractor.frozen.no_features()]
        kept: list[ImageToCount] = []
        for start in range(0, len(images), _AT_ONCE):
            some = images[start : start + _AT_ONCE]
            rows = self._rows(some)
            found = [image for image in some if image.digest in rows]
            kept += found
            if found:
                blocks.append(np.stack([rows[image.digest] for image in found]))
        features = np.concatenate(blocks)
        unusable, unanswered = tuple(self._unusable), tuple(self._unanswered)
        return ReadFeatures(features, tuple(kept), unusable, unanswered, self._trouble)

    def _rows(self, images: Sequence[ImageToCount]) -> dict[Digest, Floats]:
        known = self._cache.read(self._source, [image.digest for image in images])
        width = self._extractor.frozen.width
        rows = {digest: row for digest, row in known.items() if row.shape == (width,)}
        self._trouble = self._trouble or self._cache.trouble
        for new in self._computed([image for image in images if image.digest not in rows]):
            rows |= new
            # A disk that has refused once is not asked for every batch.
            if not self._trouble:
                self._cache.write(self._source, new)
                self._trouble = self._cache.trouble
        return rows

    def _computed(self, images: Sequence[ImageToCount]) -> Iterator[dict[Digest, Floats]]:
        for batch in self._extractor.features(images):
            self._unusable += batch.unusable
            self._unanswered += batch.unanswered
            if batch.images:
                digests = (image.digest for image in batch.images)
                yield dict(zip(digests, batch.features, strict=True))
