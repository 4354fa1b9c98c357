"""Models as people compare them: what each was made from, where it runs, how well it does there."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import chain, islice

from fleetledger.coordinator.core.phrases import natural
from fleetledger.coordinator.core.state_fold import state_of
from fleetledger.coordinator.ledger.reader import LedgerReader
from fleetledger.coordinator.topics.contributions.entries import ContributionRetracted
from fleetledger.coordinator.topics.models.entries import DeviceEvaluated
from fleetledger.coordinator.topics.models.state import DeviceMeasurement, ModelsState, ModelVersion
from fleetledger.schemas.values import Digest


def newest_models(known: ModelsState, before: int, limit: int) -> list[ModelVersion]:
    """Return versions below one, newest first."""
    below = (version for version in reversed(known.by_version) if version < before)
    return [known.by_version[version] for version in islice(below, limit)]


def of_lineage(known: ModelsState, lineage: Digest, around: int, limit: int) -> list[ModelVersion]:
    """Return the versions of a lineage that are nearest to one, oldest first."""
    own = (version for version, one in known.by_version.items() if one.digest == lineage)
    nearest = sorted(own, key=lambda version: (abs(version - around), -version))[:limit]
    return [known.by_version[version] for version in sorted(nearest)]


@dataclass(frozen=True)
class ClassPair:
    """A class under two versions, on the devices that measured both."""

    name: str
    correct: int
    total: int
    correct_before: int
    total_before: int


def class_pairs(ledger: LedgerReader, version: int, before: int) -> tuple[int, list[ClassPair]]:
    """Return on how many devices both versions were measured, and each class there."""
    now, then = (
        {
            one.device: one.body["evaluation"]["results"]
            for one in ledger.find(DeviceEvaluated, last=True, where={"evaluation.version": v})
        }
        for v in (version, before)
    )
    present, counts = state_of(ledger).classes.present, dict[str, list[int]]()
    both = now.keys() & then.keys()
    for place, measured in ((0, now), (2, then)):
        for name, result in chain.from_iterable(measured[device].items() for device in both):
            found = counts.setdefault(present(name), [0, 0, 0, 0])
            found[place] += result["correct"]
            found[place + 1] += result["total"]
    return len(both), [ClassPair(name, *found) for name, found in sorted(counts.items())]


@dataclass(frozen=True)
class ProviderRow:
    """Devices that run a version with one provider of ONNX Runtime, and that refused it."""

    provider: str
    running: int
    refused: int


def providers(ledger: LedgerReader, version: int) -> list[ProviderRow]:
    """Return where a version passed the self-test of devices, and where it did not."""
    state = state_of(ledger)
    evaluated = ledger.find(DeviceEvaluated, last=True, where={"evaluation.version": version})
    measured = {one.device: one.body["evaluation"]["provider"] for one in evaluated}
    running, refused = Counter[str](), Counter[str]()
    for name, device in state.devices.admitted.items():
        said, able = state.models.of(name), device.capabilities
        provider = measured.get(name) or (able and able.provider) or "unknown"
        running[provider] += said.active_version == version
        refused[provider] += said.refused == version
    found = [ProviderRow(name, running[name], refused[name]) for name in running]
    return sorted(
        (row for row in found if row.running or row.refused),
        key=lambda row: (-row.running, row.provider),
    )


def measured_on(
    ledger: LedgerReader, version: int, after: int, limit: int
) -> dict[str, DeviceMeasurement]:
    """Return by device where a version was measured, the weakest first, from a place on."""
    found = [
        (str(one.device), DeviceMeasurement.of(DeviceEvaluated.model_validate(one.body), one.index))
        for one in ledger.find(DeviceEvaluated, last=True, where={"evaluation.version": version})
    ]
    found.sort(key=lambda one: (one[1].share or 0, one[0]))
    return dict(found[after : after + limit])


@dataclass(frozen=True)
class VersionRefusal:
    """A device that did not keep a version, what became of it there, and why."""

    device: str
    index: int
    state: str
    reason: str


def refused_by(ledger: LedgerReader, version: int) -> list[VersionRefusal]:
    """Return who did not keep a version."""
    known = state_of(ledger).models
    return [
        VersionRefusal(
            name, said.model_index, said.model_state.replace("_", " "), said.model_reason
        )
        for name in sorted(known.devices.admitted, key=natural)
        for said in [known.of(name)]
        if said.refused == version and said.model_index is not None
    ]


def stages_of(ledger: LedgerReader) -> list[tuple[int, int, int]]:
    """Return each stage with the entry that opened it, and its number of classes."""
    found = sorted(state_of(ledger).stages.by_number.items())
    return [(number, stage.opened_index, len(stage.class_names)) for number, stage in found]


def retractions(ledger: LedgerReader) -> list[int]:
    """Return the entries by which something left the sum for good."""
    return ledger.indices(ContributionRetracted)
