"""What is known of models, and which of them goes where: what the command line shows."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated

from fleetledger.coordinator.core.phrases import count_of, some
from fleetledger.coordinator.core.state_fold import state_of
from fleetledger.coordinator.errors import CommandError
from fleetledger.coordinator.ledger.reader import LedgerReader
from fleetledger.coordinator.topics.models.stack import earlier
from fleetledger.coordinator.topics.models.state import ModelsState, ModelVersion
from fleetledger.runtime.command_report import Column, Report
from fleetledger.runtime.strict import Strict
from fleetledger.runtime.times import IsoTime, iso_time
from fleetledger.schemas.values import Digest

HELD = (
    "models are held: new ones wait for `fleetledger model push VERSION`; `fleetledger model hold "
    "--release` lets them go out by themselves again"
)


class ListedModel(Strict):
    """A version of the model."""

    version: Annotated[int, Column("version")]
    state: Annotated[str, Column("state", of="state_told")]
    waits_for_release: bool
    solved_index: int
    """The entry by which it was made."""
    solved: IsoTime
    class_names: Annotated[tuple[str, ...], Column("classes", len)]
    contributions: Annotated[int, Column("contributions", last=True)]
    running_on: Annotated[int, Column("runs on", last=True)]
    """Number of devices."""
    descends: tuple[str, ...]
    """Devices of whose retracted answers to rounds it descends."""
    source: str | None
    """The ONNX file that it was imported from; null where the fleet learned it."""
    measured_on: int
    """Devices that have tried it on their held-out samples."""
    accuracy: Annotated[float | None, Column("accuracy", of="accuracy_told")]
    """Share of all of these that it was right for, 0 to 1; of pixels the mean IoU."""
    of_pixels: bool

    @property
    def accuracy_told(self) -> str:
        """How well it does, and on how many devices that was measured."""
        if self.accuracy is None:
            return ""
        return f"{100 * self.accuracy:.1f} % on {count_of(self.measured_on)}"

    @property
    def state_told(self) -> str:
        """Its state, whether it waits for its release, and whose retracted answers are in it."""
        waits = ", waits for `model sign`" if self.waits_for_release else ""
        state = f"{self.state}{waits}"
        if self.source is not None:
            return f"{state}, imported from {self.source}"
        return f"{state}, descends from {', '.join(self.descends)}" if self.descends else state


@dataclass(frozen=True)
class GoingBack:
    """What going back would do, before it is done."""

    leaving: int
    to: int
    canaries: Mapping[int, tuple[str, ...]]
    """Devices that were told to run a version of their own, by that version."""


def models(
    known: ModelsState,
    waiting: Collection[int] = (),
    versions: Iterable[ModelVersion] | None = None,
) -> list[ListedModel]:
    """Return some versions, or all, oldest first; those of `waiting` wait for their release."""
    running = known.running
    return [
        ListedModel(
            version=model.version,
            state=known.name_of_state(model.version),
            waits_for_release=model.version in waiting,
            solved_index=model.solved_index,
            solved=model.solved_ns,
            class_names=model.made.class_names,
            contributions=model.contributions,
            running_on=running[model.version],
            descends=tuple(sorted(model.descends)),
            source=model.source,
            measured_on=measured.devices,
            accuracy=measured.accuracy,
            of_pixels=measured.mean_iou is not None,
        )
        for model in (known.by_version.values() if versions is None else versions)
        for measured in [known.measured_all(model.version)]
    ]


class ModelReport(Report):
    """What `model show` shows: what is known of one version of the model."""

    version: int
    state: str
    solved_index: int
    """The entry by which it was made."""
    solved: IsoTime
    lineage: str
    """Digest of the frozen model, or of the first weights of the network, that it belongs to."""
    class_names: tuple[str, ...]
    contributions: int
    ledger_size: int | None
    """Entries after which the sum was as it was solved; null where it was imported."""
    aggregate: str
    """Digest of the sum that it was solved of, of the weights, or of the file imported."""
    head: str
    exported_index: int | None
    """The entry that names its files; null before they were made."""
    manifest: str | None
    """Digest of what describes these."""
    parity_difference: float | None
    """Largest difference of scores between the ONNX files and the coordinator."""
    parity_agreement: float | None
    """Share of samples for which both predict one class, from 0 to 1."""
    running_on: tuple[str, ...]
    """Devices."""
    descends: tuple[str, ...]
    """Devices of whose retracted answers to rounds it descends."""
    source: str | None
    """Name of the ONNX file that it was imported from; null where the fleet learned it."""
    wait: str | None = None
    """What keeps it from going out by itself, in a sentence."""

    def above(self) -> Iterator[str]:
        """Return all that is known, a line each."""
        descends = f"from answers of {', '.join(self.descends)}, retracted"
        words = {
            "solved": iso_time(self.solved),
            "class_names": ", ".join(self.class_names),
            "running_on": ", ".join(self.running_on) or "no device",
            "descends": descends if self.descends else None,
        }
        for name, value in {**dict(self), **words}.items():
            if value is not None:
                yield f"{name:>17}  {value}"


def model_facts(known: ModelsState, version: int) -> ModelReport:
    """Return what is known of one version; raise `CommandError` if there is none."""
    model = one_version(known, version)
    exported = model.exported
    where = (name for name in known.devices.admitted if known.of(name).active_version == version)
    return ModelReport(
        version=version,
        state=known.name_of_state(version),
        solved_index=model.solved_index,
        solved=model.solved_ns,
        lineage=model.digest,
        class_names=model.made.class_names,
        contributions=model.contributions,
        ledger_size=None if model.imported is not None else model.solved.ledger_size,
        aggregate=model.aggregate,
        head=model.head,
        exported_index=model.exported_index,
        manifest=None if exported is None else exported.manifest.digest,
        parity_difference=None if exported is None else exported.parity.max_absolute_difference,
        parity_agreement=None if exported is None else exported.parity.agreement,
        running_on=tuple(sorted(where)),
        descends=tuple(sorted(model.descends)),
        source=model.source,
    )


def is_packed(known: ModelsState, file: Digest) -> bool:
    """Return whether what was imported of a file has its manifest, so that it can be pushed."""
    found = [one for one in known.by_version.values() if one.aggregate == file]
    return bool(found) and all(one.exported is not None for one in found)


def going_back(ledger: LedgerReader, to: int | None = None) -> GoingBack:
    """Return what `model rollback` would do; raise `CommandError` where it has nowhere to go.

    Whether `to` is a version to go back to is left to the coordinator's rules.
    """
    known = state_of(ledger).models
    below = earlier(known.stack)
    if not below:
        raise CommandError(
            "model: nothing to go back to; `fleetledger model list` shows the versions, "
            "`fleetledger model push VERSION` makes one that of all devices"
        )
    return GoingBack(known.stack[-1], one_version(known, to or below[0]).version, known.canaries)


def describe_canaries(found: Mapping[int, tuple[str, ...]]) -> list[str]:
    """Return a line for each version that some devices were told to run."""
    return [f"model {version} is tried on {some(devices)}" for version, devices in found.items()]


def one_version(known: ModelsState, version: int) -> ModelVersion:
    """Return a version; raise `CommandError` if there is none."""
    if version not in known.by_version:
        raise CommandError(f"version: {version} is not a model; see `fleetledger model list`")
    return known.by_version[version]


def measured_version(known: ModelsState, version: int) -> str:
    """Return in words how well a version did where it was measured; raise `CommandError`."""
    classes = len(one_version(known, version).made.class_names)
    told = f"model {version} ({classes} class{'' if classes == 1 else 'es'}"
    found = known.measured_all(version)
    if found.accuracy is None:
        return f"{told}, measured nowhere)"
    kind = "accuracy" if found.mean_iou is None else "mean IoU"
    return f"{told}, {kind} {100 * found.accuracy:.1f} % on {count_of(found.devices)})"
