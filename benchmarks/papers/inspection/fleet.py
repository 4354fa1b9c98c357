"""A fleet of statistics: what each device sends, what intake takes, what bounds set aside.

Devices and coordinator are the method's own sides; the bounds are those that a coordinator has by
default.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.papers.inspection.pictures import Pictures
from fleetledger.coordinator.core.rules import BoundRules
from fleetledger.coordinator.core.work import Judging
from fleetledger.coordinator.models.outliers import SummedParts, judged
from fleetledger.coordinator.topics.contributions.entries import PartBounds
from fleetledger.coordinator.topics.contributions.state import CountedPart, CountedParts
from fleetledger.learning.numerics.exact_sum import ScaledIntegers
from fleetledger.learning.numerics.influence import Moments
from fleetledger.methods.errors import ContributionError
from fleetledger.methods.statistics.part import PartContext
from fleetledger.methods.stsa.aggregate import StsaAggregate
from fleetledger.methods.stsa.coordinator import COORDINATOR
from fleetledger.methods.stsa.device import DEVICE
from fleetledger.methods.stsa.messages import (
    LocalStatistics,
    decode_statistics,
    encode_statistics,
)
from fleetledger.methods.stsa.settings import Form
from fleetledger.schemas.contributions import PartKey
from fleetledger.schemas.values import DeviceId, Digest
from fleetledger.simulator.plan.partitions import PartitionSettings, partition_by_dirichlet

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Samples = tuple[npt.NDArray[np.float32], Integers]
"""Features h (n, M), and their classes (n,)."""

DEVICES = 40
_LINEAGE = Digest("0" * 64)
_RULES = BoundRules()
_BOUNDS = PartBounds(
    residual=_RULES.max_residual,
    pull=_RULES.max_pull,
    move=_RULES.max_move,
    move_from_devices=_RULES.move_from_devices,
)


@dataclass(frozen=True)
class Told:
    """What a device sent: the sum of what intake took, or why it refused."""

    aggregate: StsaAggregate | None
    refused: str = ""
    samples: int = 0


@dataclass(frozen=True, eq=False)
class Fleet:
    """The pictures of one data set, dealt to devices by a seed and a skew."""

    pictures: Pictures
    beta: float
    seed: int
    form: Form
    devices: int = DEVICES

    @cached_property
    def rows(self) -> list[Integers]:
        """Training pictures of each device."""
        random = np.random.default_rng(self.seed)
        skew = PartitionSettings(beta=self.beta)
        return partition_by_dirichlet(self.pictures.train_labels, self.devices, skew, random)

    @cached_property
    def honest(self) -> list[StsaAggregate]:
        """What each device's own pictures come to."""
        found = [self.told(self.samples(device)).aggregate for device in range(self.devices)]
        taken = [one for one in found if one is not None]
        assert len(taken) == self.devices, "intake takes what honest devices send"
        return taken

    def samples(self, device: int) -> Samples:
        """Return a device's own pictures."""
        rows = self.rows[device]
        return self.pictures.train[rows], self.pictures.train_labels[rows]

    def bad(self, share: float) -> list[int]:
        """Return that share of the devices, drawn from the larger half; fewer are among more."""
        sizes = np.array([len(rows) for rows in self.rows])
        larger = np.argsort(-sizes, kind="stable")[: self.devices // 2]
        drawn = np.random.default_rng(100 + self.seed).permutation(larger)
        return sorted(drawn[: round(share * self.devices)].tolist())

    def told(self, samples: Samples, *, scaled: int = 1) -> Told:
        """Return what intake makes of samples, whose class sums are `scaled` times what they are.

        More than a part may hold go into several parts.
        """
        h, labels = samples
        most = self.pictures.told.settings.max_samples_per_part
        total: StsaAggregate | None = None
        for start in range(0, len(labels), most):
            rows = slice(start, start + most)
            try:
                one = self._part(h[rows], labels[rows], scaled)
            except ContributionError as error:
                return Told(None, str(error), len(labels))
            total = one if total is None else total + one
        return Told(total, "", len(labels))

    def _part(self, h: npt.NDArray[np.float32], labels: Integers, scaled: int) -> StsaAggregate:
        told = self.pictures.told
        names = [self.pictures.names[label] for label in labels]
        made = DEVICE.finish(told, h, names, PartContext(b"", secret=b"", form=self.form)).payload
        if scaled != 1:
            made = _scaled(made, told, scaled)
        return StsaAggregate.of(told, COORDINATOR.check(told, made), 1)

    def set_aside(self, sums: Mapping[int, StsaAggregate]) -> set[int]:
        """Return the devices that the coordinator's bounds leave out of the first model."""
        parts, counted = list(sums.items()), CountedParts()
        for index, (device, one) in enumerate(parts):
            key, name = PartKey(stage=1, part=index), DeviceId(f"device-{device}")
            item = CountedPart(name, key, Digest(f"{index:064x}"), _LINEAGE, one.samples, 0)
            counted.put(index, item)
        summed = SummedParts(
            side=COORDINATOR,
            assignment=self.pictures.told,
            lineage=_LINEAGE,
            resolution={},
            counted=counted,
            part=lambda index: parts[index][1],
            total=total(sums.values()),
        )
        verdict = judged(summed, Judging(0, _BOUNDS))
        return {parts[index][0] for part in verdict.set_aside for index in part.indices}

    def moments(self, one: StsaAggregate) -> Moments:
        """Return G, P and the samples of a sum."""
        found = COORDINATOR.judged_moments(self.pictures.told, one, self.pictures.names)
        assert found is not None, "exact and compact sums hold a Gram matrix"
        return found

    def counts(self, one: StsaAggregate) -> Integers:
        """Return the samples (C,) of each class in a sum."""
        return np.array([one.samples.get(name, 0) for name in self.pictures.names], np.int64)

    def measured(self, sums: Iterable[StsaAggregate], target: int) -> tuple[float, float]:
        """Return accuracy of a head of some sums in %, and how often the trigger has its way.

        That is the share, in %, of test pictures of other classes that are named `target` once the
        trigger is on them.
        """
        pictures = self.pictures
        head = COORDINATOR.solve(pictures.told, total(sums), pictures.names)
        weights = head.weights.T.astype(np.float64)
        right = (pictures.test @ weights).argmax(axis=1) == pictures.test_labels
        others = pictures.test_labels != target
        fooled = (pictures.test_triggered[others] @ weights).argmax(axis=1) == target
        return 100 * float(right.mean()), 100 * float(fooled.mean())


def total(sums: Iterable[StsaAggregate]) -> StsaAggregate:
    """Return the sum of some sums, at least one."""
    first, *others = sums
    for one in others:
        first = first + one
    return first


def _scaled(payload: bytes, told: Any, factor: int) -> bytes:  # noqa: ANN401 - an assignment
    read: LocalStatistics = decode_statistics(payload, told)
    sums = ScaledIntegers(read.correlation.values * factor, read.correlation.exponent)
    return encode_statistics(replace(read, correlation=sums))


def concatenated(parts: Sequence[Samples]) -> Samples:
    """Return the samples of several."""
    return np.concatenate([h for h, _ in parts]), np.concatenate([y for _, y in parts])
