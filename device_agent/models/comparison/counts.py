"""What is counted while two models are compared: integers alone, so that fleets can add them up."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from fleetledger.schemas.rollouts import (
    ENTROPY_BIN_NATS,
    ENTROPY_BINS,
    LATENCY_BINS,
    LATENCY_FIRST_SECONDS,
    LATENCY_RATIO,
    NATS,
    EntropyCounts,
    Pairs,
)
from fleetledger.schemas.values import ClassName


@dataclass(frozen=True)
class ModelReply:
    """What one model makes of one image."""

    right: Mapping[ClassName, bool]
    """Classes that the image shows and either model knows, by whether this one is right."""
    nats: float
    """Entropy of its probabilities."""
    seconds: float


@dataclass
class EntropyTally:
    """Entropies of images so far."""

    images: int = 0
    nats: int = 0
    bins: list[int] = field(default_factory=lambda: [0] * ENTROPY_BINS)

    def add(self, nats: float) -> None:
        """Count an image."""
        self.images += 1
        self.nats += round(max(0.0, nats) * NATS)
        self.bins[min(ENTROPY_BINS - 1, max(0, int(nats / ENTROPY_BIN_NATS)))] += 1

    def counts(self) -> EntropyCounts:
        """Return what travels."""
        return EntropyCounts(images=self.images, nats=self.nats, bins=_short(self.bins))


@dataclass
class LatencyTally:
    """Seconds of single samples so far."""

    bins: list[int] = field(default_factory=lambda: [0] * LATENCY_BINS)

    def add(self, seconds: float) -> None:
        """Count a sample."""
        self.bins[latency_bin(seconds)] += 1

    def counts(self) -> tuple[int, ...]:
        """Return what travels."""
        return _short(self.bins)


def latency_bin(seconds: float) -> int:
    """Return the bin of a latency; see `LATENCY_BINS`."""
    if seconds <= LATENCY_FIRST_SECONDS:
        return 0
    place = int(math.log(seconds / LATENCY_FIRST_SECONDS) / math.log(LATENCY_RATIO))
    return min(place, LATENCY_BINS - 1)


@dataclass
class ComparisonTally:
    """Everything that is counted; the active model comes first everywhere."""

    classes: dict[ClassName, Pairs] = field(default_factory=dict)
    entropies: tuple[EntropyTally, EntropyTally] = field(
        default_factory=lambda: (EntropyTally(), EntropyTally())
    )
    latencies: tuple[LatencyTally, LatencyTally] = field(
        default_factory=lambda: (LatencyTally(), LatencyTally())
    )
    timed: int = 0
    """Samples of which each model's time was taken."""
    agreed: int = 0
    unlabelled: int = 0

    def time(self, seconds: tuple[float, float]) -> None:
        """Count how long each took for a sample."""
        self.timed += 1
        for tally, taken in zip(self.latencies, seconds, strict=True):
            tally.add(taken)

    def add_entropies(self, nats: tuple[float, float]) -> None:
        """Count how sure each is of an image."""
        for tally, value in zip(self.entropies, nats, strict=True):
            tally.add(value)

    def add_labelled(self, active: ModelReply, candidate: ModelReply) -> None:
        """Count, for each class that an image shows, which of the two has it right."""
        for name, right in active.right.items():
            known = self.classes.get(name, Pairs())
            place = _PLACES[(right, candidate.right[name])]
            self.classes[name] = known.model_copy(update={place: getattr(known, place) + 1})

    def add_unlabelled(self, *, agree: bool) -> None:
        """Count an image for which nobody says what is right."""
        self.unlabelled += 1
        self.agreed += agree


_PLACES = {
    (True, True): "both",
    (True, False): "only_active",
    (False, True): "only_candidate",
    (False, False): "neither",
}


def _short(bins: Iterable[int]) -> tuple[int, ...]:
    """Leave out zeros at the end."""
    kept = list(bins)
    while kept and kept[-1] == 0:
        kept.pop()
    return tuple(kept)
