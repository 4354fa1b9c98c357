"""A device with a good model in its slot, a folder beside it that nobody may touch, and offers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from fleetledger.device_agent.core import inputs
from fleetledger.device_agent.home.store.blobs import BlobFolder
from fleetledger.device_agent.models.host import ModelHost
from fleetledger.device_agent.models.inference.installed_model import SessionSettings
from fleetledger.device_agent.models.installer import Guards, Installer
from fleetledger.device_agent.models.probation import Probation
from fleetledger.device_agent.models.slots import ModelSlots
from fleetledger.device_agent.models.trial.trial import COMMAND, Trial
from fleetledger.device_agent.settings import ModelSettings
from fleetledger.export.package import ExportedModel
from fleetledger.schemas.file_reference import FileReference
from fleetledger.schemas.models import DesiredModel, Manifest
from tests.device_agent import model_files as models
from tests.device_agent.making import GREY_8

SESSIONS = SessionSettings()
SETTINGS = ModelSettings(trial_seconds=60.0, trial_memory_mib=256)


class Place:
    """A device whose model is version 1."""

    def __init__(
        self,
        folder: Path,
        settings: ModelSettings = SETTINGS,
        command: tuple[str, ...] = COMMAND,
        sessions: SessionSettings = SESSIONS,
    ) -> None:
        self.folder = folder
        self.outside = folder / "outside"
        self.outside.mkdir(parents=True)
        (self.outside / "secret").write_bytes(b"of somebody else" * 100)
        self.blobs = BlobFolder(folder / "state" / "blobs")
        self.slots = ModelSlots(folder / "state" / "slots")
        self.sessions = sessions
        self.trial = Trial(self.blobs, sessions, settings, command)
        self.probation = Probation(self.slots.folder, 60.0)
        good = models.exported(1)
        assert isinstance(
            self.installer(tried=False).install(self.store(good)), inputs.ModelInstalled
        )
        self.probation.end()

    def installer(self, *, tried: bool = True) -> Installer:
        return Installer(
            self.blobs,
            self.slots,
            ModelHost(self.blobs, self.sessions),
            lambda _: [np.zeros(GREY_8.shape, np.float32)],
            guards=Guards(self.trial if tried else None, self.probation),
        )

    def store(self, model: ExportedModel) -> DesiredModel:
        return models.store_model(self.blobs, model)

    def install(self, model: ExportedModel) -> inputs.Input:
        return self.installer().install(self.store(model))

    def snapshot(self) -> Mapping[str, bytes | str]:
        """Everything but the blob folder, whose content is what arrives."""
        found: dict[str, bytes | str] = {}
        for path in sorted(self.folder.rglob("*")):
            if self.blobs.folder in (path, path.parent):
                continue
            name = str(path.relative_to(self.folder))
            if path.is_symlink():
                found[name] = str(path.readlink())
            elif path.is_file():
                found[name] = path.read_bytes()
        return found


def good() -> ExportedModel:
    """Version 2, as it should be."""
    return models.exported(2, flipped=True)


def with_file(which: str, data: bytes, **changed: object) -> ExportedModel:
    """Version 2 with another file in place of `frozen`, `head`, `golden` or `golden_scores`."""
    model = good()
    reference = FileReference.of(data)
    update = {which: reference, **changed}
    if which == "frozen":
        update["lineage"] = reference.digest
    manifest = Manifest.model_validate(model.manifest.model_copy(update=update).model_dump())
    kept = {ref.digest: model.files[ref.digest] for ref in manifest.files if ref != reference}
    return ExportedModel(manifest, {**kept, reference.digest: data})


def file_of(which: str) -> bytes:
    model = good()
    return model.files[getattr(model.manifest, which).digest]
