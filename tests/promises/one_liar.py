"""One device against the others: samples made by gradient, and what the bounds leave of them.

    python -m tests.promises.one_liar [--width 500] [--steps 150]

The liar knows every feature of the others and makes samples by gradient, two a class
(`benchmarks.papers.inspection.crafted`). Its payload obeys every rule of intake, since it is of
samples. It gives them whole, among honest samples, split over parts, against one class, or over
several devices that lie together.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.papers.inspection.crafted import Aim, Liar
from fleetledger.coordinator.core.rules import BoundRules
from fleetledger.coordinator.core.work import Judging
from fleetledger.coordinator.models.outliers import Judgement, SummedParts, judged
from fleetledger.coordinator.topics.contributions.entries import PartBounds
from fleetledger.coordinator.topics.contributions.state import CountedPart, CountedParts
from fleetledger.learning.numerics.counter_generator import integer_map
from fleetledger.learning.numerics.integer_features import project_integer, quantise_features
from fleetledger.methods.registry import statistics_coordinator, statistics_device
from fleetledger.methods.statistics.sides import ExactAggregate
from fleetledger.schemas.contributions import PartKey
from fleetledger.schemas.values import ClassName, DeviceId, Digest

Floats = npt.NDArray[np.float64]
Samples = tuple[Floats, npt.NDArray[np.int64]]
"""Features (n, M), and their classes (n,)."""
CLASSES = tuple(ClassName(str(digit)) for digit in range(10))
LINEAGE = Digest("0" * 64)
LARGEST = 127
_RULES = BoundRules()
_SIDE = statistics_coordinator("stsa")


@dataclass(frozen=True)
class Digits:
    """Handwritten digits behind the random map: what a fleet learns from, and a test."""

    told: Any
    train: Samples
    test: Samples

    @classmethod
    def behind(cls, width: int, **settings: object) -> Digits:
        """Return the digits as features of so many numbers."""
        from sklearn.datasets import load_digits

        data = load_digits()
        told: Any = _SIDE.assign({"map_width": width, "max_samples_per_part": 2000, **settings}, 64)
        matrix = integer_map(told.settings.map_seed, 64, width)
        pixels = (data.images.reshape(len(data.images), -1) / 16).astype(np.float32)
        h = project_integer(quantise_features(pixels), matrix, 7).astype(np.float64)
        order = np.random.default_rng(0).permutation(len(h))
        test, train = order[:400], order[400:]
        return cls(told, (h[train], data.target[train]), (h[test], data.target[test]))

    def dealt(self, devices: int, beta: float, seed: int) -> list[Samples]:
        """Return the samples of devices whose classes a Dirichlet distribution shares out."""
        h, y = self.train
        rng, whose = np.random.default_rng(seed), np.empty(len(y), int)
        for name in range(10):
            of_class = rng.permutation(np.flatnonzero(y == name))
            ends = np.cumsum(rng.dirichlet([beta] * devices)) * len(of_class)
            place = np.searchsorted(ends, np.arange(len(of_class)) + 0.5)
            whose[of_class] = place.clip(0, devices - 1)
        found = [(h[whose == device], y[whose == device]) for device in range(devices)]
        return [samples for samples in found if len(samples[1])]

    def payload(self, samples: Samples) -> bytes:
        """Return what a device sends of samples."""
        h, y = samples
        labels = [CLASSES[number] for number in y]
        device = statistics_device("stsa")
        return device.finish(self.told, h.astype(np.float32), labels).payload

    def accuracy(self, parts: Sequence[Samples]) -> tuple[float, Floats]:
        """Return the accuracy in % of a head that is solved from parts, in all and by class."""
        total = _total([self.aggregate(self.payload(part)) for part in parts])
        head = _SIDE.solve(self.told, total, CLASSES)
        h, y = self.test
        right = (h @ head.weights.T.astype(np.float64)).argmax(axis=1) == y
        return 100 * right.mean(), np.array([100 * right[y == c].mean() for c in range(10)])

    def aggregate(self, payload: bytes) -> ExactAggregate:
        """Return the sum of one payload, after every check of intake."""
        return _SIDE.aggregate_type.of(self.told, _SIDE.check(self.told, payload), 1)


def _total(parts: Sequence[ExactAggregate]) -> ExactAggregate:
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total


class Fleet:
    """Parts that came, by device, and how the coordinator judges them."""

    def __init__(self, digits: Digits) -> None:
        self.digits = digits
        self.counted = CountedParts()
        self._parts: list[ExactAggregate] = []

    def give(self, device: str, samples: Samples) -> int:
        """Take in a part of a device; return its entry."""
        index, payload = len(self._parts), self.digits.payload(samples)
        self._parts.append(self.digits.aggregate(payload))
        counts = np.bincount(samples[1], minlength=10)
        told = {CLASSES[c]: int(n) for c, n in enumerate(counts) if n}
        key = PartKey(stage=1, part=index)
        item = CountedPart(DeviceId(device), key, Digest.of(payload), LINEAGE, told, 0)
        self.counted.put(index, item)
        return index

    def judge(self, since: int, rules: BoundRules = _RULES) -> Judgement:
        """Judge what came since an entry, and set aside what is to be."""
        bounds = PartBounds(
            residual=rules.max_residual,
            pull=rules.max_pull,
            move=rules.max_move,
            move_from_devices=rules.move_from_devices,
        )
        inside = [i for i in self.counted if self.counted.is_summed(i, LINEAGE)]
        total = _total([self._parts[i] for i in inside])
        summed = SummedParts(
            _SIDE, self.digits.told, LINEAGE, {}, self.counted, self._parts.__getitem__, total
        )
        verdict = judged(summed, Judging(since, bounds))
        for part in verdict.set_aside:
            for index in part.indices:
                self.counted.put_aside(index, len(self._parts))
        for part in verdict.again:
            for index in part.indices:
                self.counted.take_back(index, len(self._parts))
        return verdict


def liar_of(digits: Digits) -> Liar:
    """Return a liar that knows every feature of the digits."""
    h, labels = digits.train
    return Liar(h, labels, digits.told.settings.ridge_value, LARGEST)


def diluted(liar: Samples, honest: Samples, extreme: int, seed: int = 0) -> Samples:
    """Return honest samples with so many of a liar's among them."""
    pick = np.random.default_rng(seed).permutation(len(liar[1]))[:extreme]
    return np.concatenate([honest[0], liar[0][pick]]), np.concatenate([honest[1], liar[1][pick]])


def shared_out(
    liar: Samples, honest: Samples, devices: int, share: tuple[int, int]
) -> list[Samples]:
    """Return what so many devices give that lie together, each with samples of its own.

    `share` is how many of a device's samples are a liar's, and how many it has.
    """
    extreme, each = share
    found = []
    for place in range(devices):
        rows = slice(place * each, (place + 1) * each - extreme)
        made = slice(place * extreme, (place + 1) * extreme)
        h = np.concatenate([honest[0][rows], liar[0][made]])
        found.append((h, np.concatenate([honest[1][rows], liar[1][made]])))
    return found


def _measured(
    digits: Digits, name: str, parts: Sequence[Samples], *, several: bool = False
) -> None:
    """Print what parts of a liar, or of several with one each, cost; and which are set aside."""
    fleet, honest = Fleet(digits), digits.dealt(20, 0.1, 0)
    for number, samples in enumerate(honest):
        fleet.give(f"dev-{number}", samples)
    false = [part.device for part in fleet.judge(0).set_aside]
    figures, out = [], 0
    for number, samples in enumerate(parts):
        index = fleet.give(f"liar-{number}" if several else "liar", samples)
        verdict = fleet.judge(index)
        figures += [part.figures for part in verdict.set_aside]
        out += len(verdict.set_aside)
    left = [part for i, part in enumerate(parts) if len(honest) + i not in fleet.counted.set_aside]
    before, _ = digits.accuracy(honest)
    open_to_all, of_class = digits.accuracy([*honest, *parts])
    bounded, of_left = digits.accuracy([*honest, *left])
    sys.stdout.write(
        f"{name}: {before:.1f} -> {open_to_all:.1f} % (worst class {of_class.min():.0f}) without "
        f"bounds, {bounded:.1f} % (worst class {of_left.min():.0f}) with them; {out} of "
        f"{len(parts)} parts set aside, honest ones {false}; {figures[:1]}\n"
    )
    sys.stdout.flush()


def main() -> None:
    """Measure liars of 1, 5 and 10 % of all samples."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--width", type=int, default=500)
    parser.add_argument("--steps", type=int, default=150)
    given = parser.parse_args()
    digits = Digits.behind(given.width)
    liar, honest = liar_of(digits), len(digits.train[1])
    for share in (0.01, 0.05, 0.1):
        count = round(share / (1 - share) * honest)
        made = liar.samples(Aim.of(count, steps=given.steps))
        _measured(digits, f"{share:.0%} whole", [made])
        order = np.random.default_rng(1).permutation(count)
        split = [(made[0][rows], made[1][rows]) for rows in np.array_split(order, 8)]
        _measured(digits, f"{share:.0%} in 8 parts", split)
        own = np.random.default_rng(2).permutation(honest)
        for extreme in _fewer(count):
            rows = own[: count - extreme]
            among = digits.train[0][rows], digits.train[1][rows]
            fewer = liar.samples(Aim.of(extreme, steps=given.steps))
            name = f"{share:.0%}, {extreme} of {count} extreme"
            _measured(digits, name, [diluted(fewer, among, extreme)])
        for devices in (2, 4):
            each = count // devices
            rows = own[: each * devices]
            among = digits.train[0][rows], digits.train[1][rows]
            for extreme in (*_fewer(each), each):
                made = liar.samples(Aim.of(extreme * devices, steps=given.steps))
                told = shared_out(made, among, devices, (extreme, each))
                name = f"{share:.0%} by {devices} devices, {extreme} of {each} extreme"
                _measured(digits, name, told, several=True)
        at = liar.samples(Aim.of(count, target=5, steps=given.steps))
        _measured(digits, f"{share:.0%} against one class", [at])


def _fewer(count: int) -> list[int]:
    return sorted({max(1, round(count * part)) for part in (0.02, 0.04, 0.08)})


if __name__ == "__main__":
    main()
