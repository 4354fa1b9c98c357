"""What a rollout's devices have measured and reported so far, summed as integers.

`Evidence` takes one report after the other, each in time that does not grow with their number. A
device's later comparison replaces its earlier one, since both are of the same images; so the sums
do not depend on the order in which devices report, and nothing counts twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from schemas.rollouts import LATENCY_BINS, ModelComparison, ModelCost, Pairs, Share
from schemas.values import ClassName, DeviceId

_NONE = Pairs()


@dataclass
class PairCounts:
    """Images, and devices as one vote each, by which of two models they speak for."""

    images: int = 0
    worse: int = 0
    """Images that only the active model had right."""
    better: int = 0
    """Images that only the candidate had right."""
    devices: int = 0
    """That had any image."""
    devices_worse: int = 0
    """With more of the former images than of the latter."""
    devices_better: int = 0

    def count(self, pairs: Pairs, times: int) -> None:
        """Add what one device had (`times` = 1), or take it away again (-1)."""
        if not pairs.images:
            return
        worse, better = pairs.only_active, pairs.only_candidate
        self.images += times * pairs.images
        self.worse += times * worse
        self.better += times * better
        self.devices += times
        self.devices_worse += times * (worse > better)
        self.devices_better += times * (worse < better)


@dataclass
class Costs:
    """What one of the two models took, summed over devices."""

    latency: list[int] = field(default_factory=lambda: [0] * LATENCY_BINS)
    resident_bytes: int = 0
    """Of devices that told it for both models."""

    def count(self, cost: ModelCost, memory: bool, times: int) -> None:
        """Add what one device told, or take it away again."""
        for number, count in enumerate(cost.latency):
            self.latency[number] += times * count
        if memory:
            self.resident_bytes += times * (cost.resident_bytes or 0)


@dataclass
class Sums:
    """Everything that comparisons say, over the devices that sent one."""

    known: PairCounts = field(default_factory=PairCounts)
    """Of all classes together that the active model of the device knows."""
    by_class: dict[ClassName, PairCounts] = field(default_factory=dict)
    """The same for each of them."""
    new_images: int = 0
    """Of classes that the active model does not know."""
    new_right: int = 0
    new_devices: int = 0
    entropy_images: int = 0
    entropy_active: int = 0
    """In 2^-16 nats, as `EntropyCounts.nats`."""
    entropy_candidate: int = 0
    unlabelled: int = 0
    agreed: int = 0
    active: Costs = field(default_factory=Costs)
    candidate: Costs = field(default_factory=Costs)

    def count(self, comparison: ModelComparison, times: int) -> None:
        """Add a comparison (`times` = 1), or take it away again (-1)."""
        self.known.count(known_pairs(comparison), times)
        new = set(comparison.new_classes)
        for name, pairs in comparison.classes.items():
            if name not in new:
                self.by_class.setdefault(name, PairCounts()).count(pairs, times)
        found = [pairs for name, pairs in comparison.classes.items() if name in new]
        self.new_images += times * sum(pairs.images for pairs in found)
        self.new_right += times * sum(pairs.both + pairs.only_candidate for pairs in found)
        self.new_devices += times * any(pairs.images for pairs in found)
        self.entropy_images += times * comparison.entropy_active.images
        self.entropy_active += times * comparison.entropy_active.nats
        self.entropy_candidate += times * comparison.entropy_candidate.nats
        self.unlabelled += times * comparison.unlabelled
        self.agreed += times * comparison.agreed
        active, candidate = comparison.cost_active, comparison.cost_candidate
        memory = None not in (active.resident_bytes, candidate.resident_bytes)
        self.active.count(active, memory, times)
        self.candidate.count(candidate, memory, times)


@dataclass
class Evidence:
    """All reports of one rollout, from the first on."""

    judges: Share | None = None
    """The devices that had no part in the candidate; None where that is asked of none."""
    judged: PairCounts = field(default_factory=PairCounts)
    """What these say of the classes that their active models know."""
    sums: Sums = field(default_factory=Sums)
    comparisons: dict[DeviceId, ModelComparison] = field(default_factory=dict)
    """The last of each device."""
    failed: set[DeviceId] = field(default_factory=set)
    """Devices on which the candidate did not come to run, or went back, when they last said so."""
    settled: set[DeviceId] = field(default_factory=set)
    """Devices that have run it for the time of settling, and not failed since."""
    throttled: set[DeviceId] = field(default_factory=set)
    """Devices that slowed themselves down since the switch."""
    felt: set[DeviceId] = field(default_factory=set)
    """Devices that can tell whether they do."""
    entries: list[int] = field(default_factory=list)
    """Ledger indices of all reports, in order."""

    def compare(self, index: int, device: DeviceId, comparison: ModelComparison) -> None:
        """Take in a comparison, which replaces what the device sent before."""
        former = self.comparisons.get(device)
        if former is not None:
            self._count(device, former, -1)
        self._count(device, comparison, 1)
        self.comparisons[device] = comparison
        self.entries.append(index)

    def _count(self, device: DeviceId, comparison: ModelComparison, times: int) -> None:
        self.sums.count(comparison, times)
        if self.judges is None or self.judges.has(device):
            self.judged.count(known_pairs(comparison), times)

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

    @contextmanager
    def without(self, device: DeviceId) -> Iterator[Sums]:
        """Give the sums as they were without a device, until left."""
        comparison = self.comparisons[device]
        self.sums.count(comparison, -1)
        try:
            yield self.sums
        finally:
            self.sums.count(comparison, 1)

    def pairs_by_device(self, of_class: ClassName | None) -> Iterator[tuple[DeviceId, Pairs]]:
        """Yield what each device has of a class, or of all that its active model knows (None)."""
        for device, comparison in self.comparisons.items():
            if of_class is None:
                yield device, known_pairs(comparison)
            elif of_class not in comparison.new_classes:
                yield device, comparison.classes.get(of_class, _NONE)


def known_pairs(comparison: ModelComparison) -> Pairs:
    """Return the pairs of all classes together that the active model knows."""
    new = set(comparison.new_classes)
    known = [pairs for name, pairs in comparison.classes.items() if name not in new]
    return Pairs(
        both=sum(pairs.both for pairs in known),
        only_active=sum(pairs.only_active for pairs in known),
        only_candidate=sum(pairs.only_candidate for pairs in known),
        neither=sum(pairs.neither for pairs in known),
    )
