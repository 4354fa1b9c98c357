"""Reports of devices in a rollout, made by hand."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fleetledger.coordinator.topics.rollouts.evidence import Evidence
from fleetledger.coordinator.topics.rollouts.plan import GatePlan
from fleetledger.coordinator.topics.rollouts.scope import Scope
from fleetledger.schemas.rollouts import (
    EntropyCounts,
    Mode,
    ModelComparison,
    ModelCost,
    Pairs,
)
from fleetledger.schemas.values import ClassName, DeviceId, Digest

ACTIVE, CANDIDATE = Digest.of(b"active"), Digest.of(b"candidate")
SECOND_GROUP = Scope(group=2, mode="run", members=51, classes=10)
FIRST_GROUP = Scope(group=1, mode="run", members=1, classes=10)


def device(number: int) -> DeviceId:
    return DeviceId(f"dev-{number:04d}")


def pairs(worse: int, better: int, images: int = 20) -> Pairs:
    """Images that only one had right; all others are right with both."""
    return Pairs(both=images - worse - better, only_active=worse, only_candidate=better)


def comparison(
    classes: dict[str, Pairs] | None = None,
    *,
    new: Iterable[str] = (),
    entropy: tuple[int, float, float] = (0, 0, 0),
    agreed: tuple[int, int] = (0, 0),
    latency: tuple[Sequence[int], Sequence[int]] = ((), ()),
    memory: tuple[int | None, int | None] = (None, None),
    mode: Mode = "run",
    group: int = 2,
) -> ModelComparison:
    """A comparison; entropy is images and the mean of both in nats."""
    images, before, after = entropy
    return ModelComparison(
        number=0,
        rollout=1,
        group=group,
        mode=mode,
        candidate=CANDIDATE,
        candidate_version=2,
        active=ACTIVE,
        active_version=1,
        classes={ClassName(name): found for name, found in (classes or {}).items()},
        new_classes=tuple(ClassName(name) for name in new),
        entropy_active=EntropyCounts(images=images, nats=round(images * before * 65536)),
        entropy_candidate=EntropyCounts(images=images, nats=round(images * after * 65536)),
        agreed=agreed[0],
        unlabelled=agreed[1],
        cost_active=ModelCost(latency=tuple(latency[0]), resident_bytes=memory[0]),
        cost_candidate=ModelCost(latency=tuple(latency[1]), resident_bytes=memory[1]),
    )


def evidence_of(*comparisons: ModelComparison, limits: GatePlan | None = None) -> Evidence:
    """Evidence of one comparison each of devices 0, 1, ..., all of which settled."""
    found = Evidence(limits or GatePlan())
    for number, one in enumerate(comparisons):
        found.compare(2 * number, device(number), one)
        found.settle(2 * number + 1, device(number), None)
    return found
