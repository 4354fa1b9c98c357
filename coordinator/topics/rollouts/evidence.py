"""What a rollout's devices have measured and reported so far, by devices.

`Evidence` takes one report after the other, each in time that does not grow with their number. The
first comparison of a device counts, and no other one. Kept are integers, exact fractions, and
numbers of devices by them, so the order in which devices report changes nothing. No device counts
for more than one, whatever it says.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from fleetledger.coordinator.topics.rollouts.evalues import net_loss, shortfall
from fleetledger.coordinator.topics.rollouts.plan import GatePlan
from fleetledger.coordinator.topics.rollouts.ranking import Ranking
from fleetledger.coordinator.topics.rollouts.scope import exact
from fleetledger.schemas import rollouts
from fleetledger.schemas.values import ClassName, DeviceId

_NONE = rollouts.Pairs()


@dataclass
class PairCounts:
    """Images by which of two models has them right, and devices by their net loss."""

    images: int = 0
    worse: int = 0
    """Images that only the active model had right."""
    better: int = 0
    """Images that only the candidate had right."""
    losses: dict[Fraction, int] = field(default_factory=dict)
    """Devices with any image by their z, see `coordinator.topics.rollouts.evalues`."""

    def count(self, pairs: rollouts.Pairs, cap: Fraction) -> None:
        """Add what one device had."""
        if not pairs.images:
            return
        self.images += pairs.images
        self.worse += pairs.only_active
        self.better += pairs.only_candidate
        z = net_loss(pairs.only_active, pairs.only_candidate, pairs.images, cap)
        self.losses[z] = self.losses.get(z, 0) + 1

    @property
    def devices(self) -> int:
        """Devices that had any image."""
        return sum(self.losses.values())

    @property
    def devices_worse(self) -> int:
        """Devices on which the candidate loses more images than it gains."""
        return sum(count for z, count in self.losses.items() if z > 0)

    @property
    def devices_better(self) -> int:
        """Devices on which it gains more than it loses."""
        return sum(count for z, count in self.losses.items() if z < 0)


@dataclass
class NewClasses:
    """Images of classes that the active model does not know."""

    images: int = 0
    right: int = 0
    wrong: Ranking = field(default_factory=Ranking)
    """Share of them that each device has wrong."""
    shortfalls: dict[Fraction, int] = field(default_factory=dict)
    """Devices by z of their shortfall; of none where no share is asked for."""

    def count(self, device: DeviceId, images: int, right: int, least: Fraction) -> None:
        """Add what one device had."""
        if not images:
            return
        self.images += images
        self.right += right
        self.wrong.add(Fraction(images - right, images), device)
        if least:
            z = shortfall(right, images, least)
            self.shortfalls[z] = self.shortfalls.get(z, 0) + 1


@dataclass
class Costs:
    """What the candidate takes, against the active model on the same device."""

    timed: list[int] = field(default_factory=lambda: [0, 0])
    """Samples of the active model and of the candidate."""
    latencies: Ranking = field(default_factory=Ranking)
    """Ratio of the p95, 1 where the difference is no matter."""
    memories: Ranking = field(default_factory=Ranking)
    """Ratio of the resident bytes."""

    def count(
        self, device: DeviceId, comparison: rollouts.ModelComparison, least: Fraction
    ) -> None:
        """Add what one device told; what is slower by `least` seconds or less is equally fast."""
        costs = (comparison.cost_active, comparison.cost_candidate)
        samples = [sum(cost.latency) for cost in costs]
        if all(samples):
            self.timed = [before + more for before, more in zip(self.timed, samples, strict=True)]
            active, candidate = (p95(cost.latency) for cost in costs)
            slower = candidate - active
            ratio = Fraction(1) if 0 < slower <= least else candidate / active
            self.latencies.add(ratio, device)
        before, after = (cost.resident_bytes for cost in costs)
        if before and after is not None:
            self.memories.add(Fraction(after, before), device)


@dataclass
class ModelAnswers:
    """What both models answer without anybody knowing what is right."""

    images: int = 0
    """Images of which both entropies are there."""
    less_sure: Ranking = field(default_factory=Ranking)
    """How much higher the candidate's mean entropy is on a device, in nats."""
    surer: Ranking = field(default_factory=Ranking)
    """How much lower, the same values with the other sign."""
    unlabelled: int = 0
    agreed: int = 0
    disagreeing: Ranking = field(default_factory=Ranking)
    """Share of a device's unlabelled images to which both give different classes."""

    def count(self, device: DeviceId, comparison: rollouts.ModelComparison) -> None:
        """Add what one device told."""
        before, after = comparison.entropy_active, comparison.entropy_candidate
        if before.images:
            self.images += before.images
            shift = Fraction(after.nats - before.nats, before.images * rollouts.NATS)
            self.less_sure.add(shift, device)
            self.surer.add(-shift, device)
        if comparison.unlabelled:
            self.unlabelled += comparison.unlabelled
            self.agreed += comparison.agreed
            differ = comparison.unlabelled - comparison.agreed
            self.disagreeing.add(Fraction(differ, comparison.unlabelled), device)


@dataclass
class Evidence:
    """All reports of one rollout, from the first on."""

    limits: GatePlan = field(default_factory=GatePlan)
    judges: rollouts.Share | None = None
    """The devices that had no part in the candidate; None where that is asked of none."""
    judged: PairCounts = field(default_factory=PairCounts)
    """What these say of the classes that their active models know."""
    known: PairCounts = field(default_factory=PairCounts)
    """All classes together that the active model of the device knows."""
    by_class: dict[ClassName, PairCounts] = field(default_factory=dict)
    """The same for each of them."""
    new: NewClasses = field(default_factory=NewClasses)
    costs: Costs = field(default_factory=Costs)
    answers: ModelAnswers = field(default_factory=ModelAnswers)
    comparisons: dict[DeviceId, rollouts.ModelComparison] = field(default_factory=dict)
    """The first of each device."""
    failed: set[DeviceId] = field(default_factory=set)
    """Devices on which the candidate did not come to run, or went back, when they last said so."""
    settled: set[DeviceId] = field(default_factory=set)
    """Devices that have run it for the time of settling, and not failed since."""
    throttled: set[DeviceId] = field(default_factory=set)
    """Devices that slowed themselves down since the switch."""
    felt: set[DeviceId] = field(default_factory=set)
    """Devices that can tell whether they do."""
    entries: list[int] = field(default_factory=list)
    """Ledger indices of all reports that count, in order."""

    def compare(self, index: int, device: DeviceId, comparison: rollouts.ModelComparison) -> bool:
        """Take in a comparison; return whether it counts, as the device's first one does."""
        if device in self.comparisons:
            return False
        self.comparisons[device] = comparison
        self.entries.append(index)
        cap, pairs = exact(self.limits.cap), known_pairs(comparison)
        self.known.count(pairs, cap)
        if self.judges is None or self.judges.has(device):
            self.judged.count(pairs, cap)
        new = set(comparison.new_classes)
        for name, of_class in comparison.classes.items():
            if name not in new:
                self.by_class.setdefault(name, PairCounts()).count(of_class, cap)
        found = [of_class for name, of_class in comparison.classes.items() if name in new]
        self.new.count(
            device,
            sum(of_class.images for of_class in found),
            sum(of_class.both + of_class.only_candidate for of_class in found),
            exact(self.limits.min_new),
        )
        self.costs.count(device, comparison, exact(self.limits.latency_seconds))
        self.answers.count(device, comparison)
        return True

    def settle(self, index: int, device: DeviceId, throttled: int | None) -> None:
        """Take in that a device runs the candidate for good; None where it cannot feel heat."""
        self.failed.discard(device)
        self.settled.add(device)
        if throttled is not None:
            self.felt.add(device)
        if throttled:
            self.throttled.add(device)
        self.entries.append(index)

    def fail(self, index: int, device: DeviceId) -> None:
        """Take in that the candidate failed on a device, or that it went back by itself."""
        self.settled.discard(device)
        self.failed.add(device)
        self.entries.append(index)

    def pairs_by_device(
        self, of_class: ClassName | None
    ) -> Iterator[tuple[DeviceId, rollouts.Pairs]]:
        """Yield what each device has of a class, or of all that its active model knows (None)."""
        for device, comparison in self.comparisons.items():
            if of_class is None:
                yield device, known_pairs(comparison)
            elif of_class not in comparison.new_classes:
                yield device, comparison.classes.get(of_class, _NONE)


def known_pairs(comparison: rollouts.ModelComparison) -> rollouts.Pairs:
    """Return the pairs of all classes together that the active model knows."""
    new = set(comparison.new_classes)
    known = [pairs for name, pairs in comparison.classes.items() if name not in new]
    return rollouts.Pairs.model_construct(
        both=sum(pairs.both for pairs in known),
        only_active=sum(pairs.only_active for pairs in known),
        only_candidate=sum(pairs.only_candidate for pairs in known),
        neither=sum(pairs.neither for pairs in known),
    )


_EDGES = tuple(
    exact(rollouts.LATENCY_FIRST_SECONDS) * exact(rollouts.LATENCY_RATIO) ** number
    for number in range(rollouts.LATENCY_BINS + 1)
)
"""Where bins begin, in seconds."""


def p95(histogram: Sequence[int]) -> Fraction:
    """Return the 95th percentile of latencies in seconds, linear within its bin.

    `histogram` has at most `LATENCY_BINS` counts, at least one above 0.
    """
    rank = -(-95 * sum(histogram) // 100)
    for number, count in enumerate(histogram):
        if count and rank <= count:
            begins, ends = _EDGES[number], _EDGES[number + 1]
            return begins + (ends - begins) * Fraction(rank, count)
        rank -= count
    raise ValueError("no latencies; there is no percentile of nothing")
