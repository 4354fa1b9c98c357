"""Evidence as it grew, report by report: what the plots of a rollout show."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from fleetledger.coordinator.reports.rollouts.report import EvidenceCurve, EvidencePoint
from fleetledger.coordinator.reports.rollouts.story import ComparedThen
from fleetledger.coordinator.topics.rollouts.evalues import log_evidence, net_loss
from fleetledger.coordinator.topics.rollouts.plan import GatePlan
from fleetledger.coordinator.topics.rollouts.scope import exact

MOST_POINTS = 120
"""Of a curve; longer ones are thinned, and keep where they are highest."""
MOST_CLASSES = 12
"""Curves that are told, the strongest first."""
OLD = ""
"""Name of the curve of all old classes together."""


@dataclass
class Grown:
    """Evidence on one class, or on all, so far."""

    limits: GatePlan
    liars: Fraction
    """Share of devices that may lie."""
    by_device: dict[str, Fraction] = field(default_factory=dict)
    """The z of each device with any image, see `coordinator.topics.rollouts.evalues`."""
    losses: Counter[Fraction] = field(default_factory=Counter)
    """Devices by their z."""
    images: int = 0
    worse: int = 0
    better: int = 0
    points: list[EvidencePoint] = field(default_factory=list)

    def apply(self, device: str, counts: tuple[int, int, int], index: int) -> None:
        """Take in images, those only the active, only the candidate had right; the first count."""
        images, worse, better = counts
        if not images or device in self.by_device:
            return
        z = self.by_device[device] = net_loss(worse, better, images, exact(self.limits.cap))
        self.losses[z] += 1
        self.images += images
        self.worse += worse
        self.better += better
        point = EvidencePoint(
            devices=len(self.by_device), log_e=self._log_of(self.losses), index=index
        )
        self.points.append(point)

    @property
    def log_e(self) -> float:
        """How strong it is now."""
        return self.points[-1].log_e if self.points else 0.0

    def heaviest(self) -> tuple[str, float] | None:
        """Return the device that counts most against the candidate, and log e without it."""
        found = [(-z, name) for name, z in self.by_device.items() if z > 0]
        if not found:
            return None
        name = min(found)[1]
        return name, self._log_of(self.losses - Counter([self.by_device[name]]))

    def curve(self, name: str) -> EvidenceCurve:
        """Return it as it is shown."""
        return EvidenceCurve(
            name=name,
            images=self.images,
            only_active=self.worse,
            only_candidate=self.better,
            log_e=self.log_e,
            devices=len(self.by_device),
            points=tuple(thinned(self.points)),
        )

    def _log_of(self, losses: Counter[Fraction]) -> float:
        return log_evidence(losses, self.liars)


def grown(reports: Iterable[ComparedThen], limits: GatePlan) -> dict[str, Grown]:
    """Return evidence by class, and of all old classes under `OLD`, in the order of reports."""
    found = defaultdict[str, Grown](lambda: Grown(limits, limits.liars_of_class))
    found[OLD] = Grown(limits, exact(limits.liars))
    for report in reports:
        new = set(report.body.get("new_classes", ()))
        total = (0, 0, 0)
        for name, pairs in report.body.get("classes", {}).items():
            if name in new:
                continue
            counts = _counts(pairs)
            found[name].apply(report.device, counts, report.index)
            total = (total[0] + counts[0], total[1] + counts[1], total[2] + counts[2])
        found[OLD].apply(report.device, total, report.index)
    return dict(found)


def curves(found: Mapping[str, Grown]) -> tuple[EvidenceCurve | None, tuple[EvidenceCurve, ...]]:
    """Return the curve of all old classes, and those of single ones, the strongest first."""
    old = found.get(OLD)
    single = sorted(
        ((name, one) for name, one in found.items() if name != OLD and one.points),
        key=lambda item: (-item[1].log_e, -item[1].worse, item[0]),
    )
    return (
        old.curve(OLD) if old is not None and old.points else None,
        tuple(one.curve(name) for name, one in single[:MOST_CLASSES]),
    )


def thinned(points: Sequence[EvidencePoint]) -> list[EvidencePoint]:
    """Return at most `MOST_POINTS`: the highest of each run of as many, and the last one."""
    if len(points) <= MOST_POINTS:
        return list(points)
    each = -(-len(points) // (MOST_POINTS - 1))
    runs = [points[start : start + each] for start in range(0, len(points), each)]
    found = [max(run, key=lambda point: point.log_e) for run in runs]
    return found if found[-1] is points[-1] else [*found[:-1], points[-1]]


def _counts(pairs: Mapping[str, int]) -> tuple[int, int, int]:
    worse, better = pairs.get("only_active", 0), pairs.get("only_candidate", 0)
    return pairs.get("both", 0) + worse + better + pairs.get("neither", 0), worse, better
