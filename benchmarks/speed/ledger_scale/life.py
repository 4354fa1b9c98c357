"""A coordinator's home whose fleet has lived long, written through the ledger's own writer.

Stage after stage every device starts a few times, reports something new, gives parts of statistics
and runs one model after the other, each of which it says something of and measures. Checkpoints are
signed, and payloads are held, so that `verify` has as much to do as with a real fleet's ledger.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count, islice
from pathlib import Path

from benchmarks.speed.contribution_rate.load import PREPROCESSING
from benchmarks.speed.fleet_view.history import FLEET, History, Told, write_settings
from fleetledger.coordinator.ledger.entries import EntryDraft
from fleetledger.coordinator.ledger.keys import note_signer
from fleetledger.coordinator.ledger.store import Ledger
from fleetledger.coordinator.models.backbones import prepare_backbone
from fleetledger.coordinator.paths import ledger_path
from fleetledger.coordinator.topics.contributions.entries import ContributionAccepted
from fleetledger.coordinator.topics.devices.entries import DeviceAdmitted
from fleetledger.coordinator.topics.lineages.entries import BackboneImported
from fleetledger.coordinator.topics.stages.entries import StageClosed, TransitionReported
from fleetledger.export.scaling_backbone import scaling_backbone
from fleetledger.schemas.reports import Transition
from fleetledger.schemas.values import ClassName, DeviceId, Digest

_GROUP = 32
"""Entries of a commit, each with a signed checkpoint."""


@dataclass(frozen=True)
class Life(History):
    """How much has happened to a fleet, in as many stages as the entries fill."""

    births: int = 3
    """Starts of every device, in a stage."""
    parts: int = 2
    """That every device gives in a stage."""
    models: int = 6
    """Made in a stage; every device says of each that it runs, and how well."""
    payload_bytes: int = 1024

    @property
    def most_contributions(self) -> int:
        """As many as the method must take; it can take no more than a million."""
        return min(self.entries, 1_000_000)

    @property
    def name(self) -> str:
        """Names its folder."""
        return f"ledger-scale-{self.devices}-{self.entries}"


def life_in(life: Life, folder: Path) -> Path:
    """Return the home with this life in `folder`; made if there is none that is whole."""
    home = folder / life.name
    if not (home / "made").exists():
        shutil.rmtree(home, ignore_errors=True)
        _make(life, home)
        (home / "made").touch()
    return home


def _make(life: Life, home: Path) -> None:
    write_settings(life, home)
    (home / "pixels.onnx").write_bytes(scaling_backbone(PREPROCESSING))
    (home / "pixels.json").write_text(PREPROCESSING.model_dump_json(), encoding="utf-8")
    backbone = prepare_backbone(home, home / "pixels.onnx", home / "pixels.json", trusted=True)
    told = _Life(life, backbone)
    drafts = islice(told.drafts(), life.entries)
    signs = note_signer(home, FLEET)
    with Ledger.open(ledger_path(home), sign_note=signs) as ledger:
        ledger.db.execute("PRAGMA synchronous=OFF")
        while group := list(islice(drafts, _GROUP)):
            ledger.append(group, told.blobs)
            told.blobs = {}


class _Life(Told):
    """The life, entry by entry, without an end."""

    def __init__(self, life: Life, backbone: BackboneImported) -> None:
        super().__init__(life, backbone)
        self._life = life
        self._version = 0

    def drafts(self) -> Iterator[EntryDraft]:
        """Yield it; the blobs that its next entries name are in `blobs`."""
        names = self._life.names
        yield self._draft(self._backbone)
        for name in names:
            yield self._draft(DeviceAdmitted(device=name))
        for stage in count(1):
            yield from self._season(stage, names)

    def _season(self, stage: int, names: Sequence[DeviceId]) -> Iterator[EntryDraft]:
        fresh = ClassName(f"class-{stage}")
        for device in names:
            yield self._born(device)
            report = Transition(stage=stage, number=0, why="class name", classes={fresh: 1 + stage})
            yield self._draft(TransitionReported(transition=report), device)
        yield from self._opened(stage, [fresh])
        for number in range(self._life.models):
            if number < self._life.parts:
                yield from self._given_by_all(stage, number, names)
            if 0 < number < self._life.births:
                yield from map(self._born, names)
            self._version += 1
            yield from self._model(self._version, names)
        answered = len(names)
        yield self._draft(
            StageClosed(stage=stage, reason="quorum", answered=answered, expected=answered)
        )

    def _given_by_all(
        self, stage: int, part: int, names: Sequence[DeviceId]
    ) -> Iterator[EntryDraft]:
        for device in names:
            self._given.append(self._size)
            yield self._draft(self._contribution(stage, part, self._known[-3:]), device)

    def _contribution(
        self, stage: int, part: int, fresh: Sequence[ClassName]
    ) -> ContributionAccepted:
        payload = self._random.randbytes(self._life.payload_bytes)
        digest = Digest.of(payload)
        self.blobs[digest] = payload
        more = {"payload": digest, "payload_bytes": len(payload)}
        given = super()._contribution(stage, part, fresh).part
        return ContributionAccepted(part=given.model_copy(update=more))
