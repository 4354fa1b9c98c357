"""What is known of models, and which of them goes where: what the command line shows."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from fleetledger.coordinator.core.formatting import count_of, some
from fleetledger.coordinator.errors import CommandError
from fleetledger.coordinator.ledger.reader import LedgerReader, ledger_of
from fleetledger.coordinator.topics.models.stack import earlier
from fleetledger.schemas.message import Strict
from fleetledger.schemas.shown import Column, Report
from fleetledger.schemas.times import IsoTime, iso_time
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
class MeasuredVersion:
    """A version, and how well it did where it was measured."""

    version: int
    devices: int
    accuracy: float | None
    """Share of held-out samples of all devices that it was right for; of pixels, mean of the
    devices' mean IoU."""
    of_pixels: bool
    classes: int

    @property
    def text(self) -> str:
        """What an operator is told of it."""
        classes = f"{self.classes} class{'' if self.classes == 1 else 'es'}"
        if self.accuracy is None:
            return f"model {self.version} ({classes}, measured nowhere)"
        kind = "mean IoU" if self.of_pixels else "accuracy"
        on = count_of(self.devices)
        return f"model {self.version} ({classes}, {kind} {100 * self.accuracy:.1f} % on {on})"


@dataclass(frozen=True)
class GoingBack:
    """What going back would do, before it is done."""

    leaving: MeasuredVersion
    to: MeasuredVersion
    canaries: dict[int, tuple[str, ...]]
    """Devices that were told to run a version of their own, by that version."""


def models(home: Path, waiting: Collection[int] = ()) -> list[ListedModel]:
    """Return the versions, oldest first; those of `waiting` wait for their release."""
    with ledger_of(home) as ledger:
        rows = list(
            ledger.db.query(
                "SELECT model.*, (SELECT count(*) FROM device"
                " WHERE active_version = model.version) AS running_on"
                " FROM model ORDER BY version"
            )
        )
        descends = {row["version"]: _descends(ledger, row["version"]) for row in rows}
        measured = {row["version"]: measured_version(ledger, row["version"]) for row in rows}
    return [
        ListedModel(
            version=version,
            state=row["state"],
            waits_for_release=version in waiting,
            class_names=tuple(json.loads(row["class_names"])),
            contributions=row["contributions"],
            running_on=row["running_on"],
            descends=descends[version],
            source=row["source"],
            measured_on=measured[version].devices,
            accuracy=measured[version].accuracy,
        )
        for row in rows
        for version in [row["version"]]
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


def model_facts(home: Path, version: int) -> ModelReport:
    """Return what is known of one version; raise `CommandError` if there is none."""
    with ledger_of(home) as ledger:
        rows = list(ledger.db.query("SELECT * FROM model WHERE version = ?", [version]))
        running = ledger.db.execute(
            "SELECT device FROM device WHERE active_version = ? ORDER BY device", [version]
        ).fetchall()
        descends = _descends(ledger, version)
    if not rows:
        raise CommandError(f"version: {version} is not a model; see `fleetledger model list`")
    row = dict(rows[0])
    row["class_names"] = tuple(json.loads(row["class_names"]))
    solved = row.pop("solved_ns")
    where = tuple(device for (device,) in running)
    return ModelReport(**row, solved=solved, running_on=where, descends=descends)


def is_packed(home: Path, file: Digest) -> bool:
    """Whether what was imported of a file has its manifest, so that it can be pushed."""
    with ledger_of(home) as ledger:
        query = "SELECT min(manifest IS NOT NULL) FROM model WHERE aggregate = ?"
        row = _first_row(ledger, query, file)
    return row is not None and bool(row[0])


def _descends(ledger: LedgerReader, version: int) -> tuple[str, ...]:
    rows = ledger.db.execute(
        "SELECT device FROM descent WHERE version = ? ORDER BY device", [version]
    )
    return tuple(device for (device,) in rows.fetchall())


@dataclass(frozen=True)
class GoingOut:
    """Which model is newest, which goes out to whom, and what keeps one from it."""

    newest: int | None
    newest_index: int | None
    newest_learned: int | None
    """The newest that the fleet learned; imported ones wait for nobody."""
    desired: int | None
    """What all devices are to run that nothing else is said of."""
    canaries: dict[int, tuple[str, ...]]
    """Devices that were told to run a version of their own, by that version."""
    pins: dict[str, int]
    """Devices that are pinned, with their versions."""
    held_index: int | None
    """The entry by which solved models wait for the operator; None where they do not."""
    withheld: tuple[int, tuple[str, ...]] | None
    """The entry that says which classes the newest lacks, and these; None where it waits not."""
    failed: tuple[int, str] | None
    """The entry of the last failure to make a model, and why; None since one was made."""


def going_out(ledger: LedgerReader) -> GoingOut:
    """Return what there is of models, and what of them goes out."""
    first = _first_row
    newest = first(ledger, "SELECT version, solved_index FROM model ORDER BY version DESC LIMIT 1")
    learned = first(ledger, "SELECT max(version) FROM model WHERE source IS NULL")
    desired = first(ledger, "SELECT version FROM fleet_model ORDER BY place DESC LIMIT 1")
    held_by = first(ledger, "SELECT idx FROM model_hold")
    withheld = first(
        ledger,
        "SELECT idx, lacks FROM model_withheld WHERE version ="
        " (SELECT max(version) FROM model WHERE source IS NULL) AND version NOT IN"
        " (SELECT version FROM fleet_model)",
    )
    failed = first(ledger, "SELECT idx, reason FROM model_failed")
    return GoingOut(
        newest=newest[0] if newest else None,
        newest_index=newest[1] if newest else None,
        newest_learned=learned[0] if learned else None,
        desired=desired[0] if desired else None,
        canaries=_canaries(ledger),
        pins=pins(ledger),
        held_index=held_by[0] if held_by else None,
        withheld=(withheld[0], tuple(json.loads(withheld[1]))) if withheld else None,
        failed=(failed[0], failed[1]) if failed else None,
    )


def _first_row(ledger: LedgerReader, query: str, *values: str) -> tuple[Any, ...] | None:
    row: tuple[Any, ...] | None = ledger.db.execute(query, values).fetchone()
    return row


def held(home: Path) -> bool:
    """Whether solved models wait for the operator."""
    with ledger_of(home) as ledger:
        return _first_row(ledger, "SELECT idx FROM model_hold") is not None


def canaries(home: Path) -> dict[int, tuple[str, ...]]:
    """Return the devices that were told to run a version of their own, by that version."""
    with ledger_of(home) as ledger:
        return _canaries(ledger)


def pins(ledger: LedgerReader) -> dict[str, int]:
    """Return the devices that are pinned, with their versions."""
    rows = ledger.db.execute("SELECT device, version FROM pin WHERE pinned ORDER BY device")
    return dict(rows.fetchall())


def going_back(ledger: LedgerReader, to: int | None = None) -> GoingBack:
    """Return what `model rollback` would do; raise `CommandError` where it has nowhere to go.

    Whether `to` is a version to go back to is left to the coordinator's rules.
    """
    stack = _stack(ledger)
    below = earlier(stack)
    if not below:
        raise CommandError(
            "model: nothing to go back to; `fleetledger model list` shows the versions, "
            "`fleetledger model push VERSION` makes one that of all devices"
        )
    return GoingBack(
        measured_version(ledger, stack[-1]),
        measured_version(ledger, to or below[0]),
        _canaries(ledger),
    )


def versions_below(ledger: LedgerReader) -> tuple[int, ...]:
    """Return the versions that all devices can go back to, the nearest first."""
    return earlier(_stack(ledger))


def _stack(ledger: LedgerReader) -> list[int]:
    rows = ledger.db.execute("SELECT version FROM fleet_model ORDER BY place").fetchall()
    return [version for (version,) in rows]


def told_canaries(found: dict[int, tuple[str, ...]]) -> list[str]:
    """Return a line for each version that some devices were told to run."""
    return [f"model {version} is tried on {some(devices)}" for version, devices in found.items()]


def _canaries(ledger: LedgerReader) -> dict[int, tuple[str, ...]]:
    found: dict[int, tuple[str, ...]] = {}
    for row in ledger.db.query("SELECT device, version FROM canary ORDER BY version, device"):
        found[row["version"]] = (*found.get(row["version"], ()), row["device"])
    return found


def class_names_of(ledger: LedgerReader, version: int) -> tuple[str, ...]:
    """Return what a version knows; raise `CommandError` if there is none."""
    query = "SELECT class_names FROM model WHERE version = ?"
    row = ledger.db.execute(query, [version]).fetchone()
    if row is None:
        raise CommandError(f"version: {version} is not a model; see `fleetledger model list`")
    return tuple(json.loads(row[0]))


def measured_version(ledger: LedgerReader, version: int) -> MeasuredVersion:
    """Return how well a version did; raise `CommandError` if there is none."""
    classes = len(class_names_of(ledger, version))
    (row,) = ledger.db.query(
        "SELECT count(*) AS devices, sum(correct) AS correct, sum(total) AS total,"
        " avg(mean_iou) AS mean_iou FROM measured WHERE version = ?",
        [version],
    )
    accuracy = row["mean_iou"]
    if accuracy is None and row["total"]:
        accuracy = row["correct"] / row["total"]
    return MeasuredVersion(version, row["devices"], accuracy, row["mean_iou"] is not None, classes)
