"""Models as people compare them: what each was made from, where it runs, how well it does there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain, islice

from fleetledger.coordinator.core.folding import state_of
from fleetledger.coordinator.core.formatting import natural
from fleetledger.coordinator.ledger.reader import LedgerReader
from fleetledger.coordinator.topics.contributions.entries import ContributionRetracted
from fleetledger.coordinator.topics.models.entries import DeviceEvaluated
from fleetledger.coordinator.topics.models.state import DeviceMeasurement, MeasuredAll, ModelsState


@dataclass(frozen=True)
class VersionFacts:
    """A version of the model, with what devices say of it."""

    version: int
    state: str
    solved_index: int
    solved_ns: int
    exported_index: int | None
    lineage: str
    class_names: tuple[str, ...]
    contributions: int
    source: str | None
    """The ONNX file that it was imported from; None where the fleet learned it."""
    aggregate: str
    head: str
    manifest: str | None
    difference: float | None
    """Largest difference of a score of the exported files from the coordinator's own."""
    agreement: float | None
    running: int
    """Devices that it runs on."""
    measured: MeasuredAll


def newest_models(ledger: LedgerReader, before: int, limit: int) -> list[VersionFacts]:
    """Return versions below one, newest first."""
    known = state_of(ledger).models
    below = (version for version in reversed(known.by_version) if version < before)
    return _facts(known, islice(below, limit))


def one_model(ledger: LedgerReader, version: int) -> VersionFacts | None:
    """Return a version; None where there is none."""
    known = state_of(ledger).models
    return next(iter(_facts(known, {version} & known.by_version.keys())), None)


def of_lineage(ledger: LedgerReader, lineage: str, around: int, limit: int) -> list[VersionFacts]:
    """Return the versions of a lineage that are nearest to one, oldest first."""
    known = state_of(ledger).models
    own = (version for version, one in known.by_version.items() if one.digest == lineage)
    nearest = sorted(own, key=lambda version: (abs(version - around), -version))[:limit]
    return _facts(known, sorted(nearest))


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
            one.device: one.body["results"]
            for one in ledger.find(DeviceEvaluated, last=True, where={"version": v})
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
    evaluated = ledger.find(DeviceEvaluated, last=True, where={"version": version})
    measured = {one.device: one.body["provider"] for one in evaluated}
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


@dataclass(frozen=True)
class MeasuredThere:
    """How well a version does on a device."""

    device: str
    index: int
    correct: int
    total: int
    mean_iou: float | None

    @property
    def share(self) -> float:
        """Share that it was right for, 0 where nothing is held out; of pixels the mean IoU."""
        return self.correct / max(self.total, 1) if self.mean_iou is None else self.mean_iou


def measured_on(ledger: LedgerReader, version: int, after: int, limit: int) -> list[MeasuredThere]:
    """Return where a version was measured, the weakest first, from a place on."""
    found = [
        MeasuredThere(str(at.device), one.index, one.correct, one.total, one.mean_iou)
        for at in ledger.find(DeviceEvaluated, last=True, where={"version": version})
        for one in [DeviceMeasurement.of(DeviceEvaluated.model_validate(at.body), at.index)]
    ]
    return sorted(found, key=lambda one: (one.share, one.device))[after : after + limit]


def refused_by(ledger: LedgerReader, version: int) -> list[tuple[str, int, str, str]]:
    """Return who did not keep a version: device, entry, what became of it, why."""
    known = state_of(ledger).models
    return [
        (name, said.model_index, said.model_state, said.model_reason)
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


def _facts(known: ModelsState, versions: Iterable[int]) -> list[VersionFacts]:
    running = known.running
    return [
        VersionFacts(
            version=version,
            state=known.name_of_state(version),
            solved_index=model.solved_index,
            solved_ns=model.solved_ns,
            exported_index=model.exported_index,
            lineage=model.digest,
            class_names=model.made.class_names,
            contributions=model.contributions,
            source=model.source,
            aggregate=model.aggregate,
            head=model.head,
            manifest=None if exported is None else exported.manifest.digest,
            difference=None if exported is None else exported.parity.max_absolute_difference,
            agreement=None if exported is None else exported.parity.agreement,
            running=running[version],
            measured=known.measured_all(version),
        )
        for version in versions
        for model in [known.by_version[version]]
        for exported in [model.exported]
    ]
