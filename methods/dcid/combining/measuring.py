"""Phase `means`: sums of anchors' features become the directions of class means."""

from __future__ import annotations

import numpy as np

from learning.numerics.exact_sum import ScaledIntegers
from learning.numerics.nearest_mean import UNIT_EXPONENT, class_directions
from methods.dcid.assignment import DcidAssignment
from methods.dcid.combining.told import Told
from methods.dcid.general import encode_general
from methods.dcid.messages import MeansFrame, means_frame
from methods.training_half import Asked, Combined, Partial, Summing
from schemas.canonical import canonical_json
from schemas.values import Digest


class Measuring:
    """Phase `means`: sums of anchors' features become the directions of class means."""

    def __init__(self, assignment: DcidAssignment, asked: Asked) -> None:
        self._told = Told(assignment, asked)
        self.frame = means_frame(assignment, self._told.classes)

    def check(self, payload: bytes) -> None:
        """Raise `ContributionError` unless these are sums of as many features as they say."""
        self.frame.decode(payload)

    def summing(self, most: int) -> Summing:
        """Return the empty sum: 2^30 steps, 100,000 anchors and 2^16 sites fit 63 bits."""
        del most
        return _Means(self.frame)

    def combined(self, total: Summing) -> Combined:
        """Return the weights with the class means, by which exported models answer."""
        assert isinstance(total, _Means)
        names = self._told.asked.class_names
        rows = class_directions(ScaledIntegers(total.sums, UNIT_EXPONENT)).astype(np.float32)
        without = [name for name, count in zip(names, total.counts, strict=True) if not count]
        remarks = (f"no site has an anchor of {', '.join(without)}",) if without else ()
        return Combined(
            encode_general(self._told.sent(), names, rows),
            self._told.lasting(),
            _digest_of_means(total),
            max(1, int(total.counts.sum())),
            0.0,
            remarks,
        )


class _Means:
    def __init__(self, frame: MeansFrame) -> None:
        self._frame = frame
        self.sums = np.zeros((frame.classes, frame.width), np.int64)
        self.counts = np.zeros(frame.classes, np.int64)

    def add(self, payload: bytes, samples: int) -> None:
        """Take in a site's sums."""
        del samples  # anchors count, each once
        sums, counts = self._frame.decode(payload)
        self.sums += sums
        self.counts += counts

    def partial(self) -> Partial:
        """Return the sums, and how many anchors are in them."""
        return Partial((), (self.sums, self.counts))

    def join(self, other: Partial) -> None:
        """Take in other sums."""
        sums, counts = other.arrays
        self.sums += sums
        self.counts += counts


def _digest_of_means(total: _Means) -> Digest:
    header = canonical_json({"form": "means-sum-1", "shape": list(total.sums.shape)})
    parts = (total.sums.astype("<i8").tobytes(), total.counts.astype("<i8").tobytes())
    return Digest.of(b"".join((header, *parts)))
