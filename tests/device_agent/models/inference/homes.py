"""A home with models in its slots, as an agent that runs there leaves it."""

from __future__ import annotations

from pathlib import Path

from fleetledger.device_agent.home.home import NewHome, write_home
from fleetledger.device_agent.home.store.blobs import BlobFolder
from fleetledger.device_agent.models.inference.published import PublishedModels
from fleetledger.device_agent.models.slots import ModelSlots, Slot
from fleetledger.export.package import ExportedModel
from fleetledger.schemas.values import DeviceId, Digest, FleetId


class ServingHome:
    """Switches models as the agent does, but for trial and self-test."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        write_home(folder, NewHome(DeviceId("camera-1"), FleetId("orchard"), data_folder=None))
        self.blobs = BlobFolder(folder / "state" / "blobs")
        self.slots = ModelSlots(folder / "state" / "slots")
        self.published = PublishedModels(folder, self.blobs, self.slots)

    def switch(self, model: ExportedModel) -> Slot:
        """Make a model active, and let go what only an older one needs."""
        there = self.blobs.digests()
        for data in (model.manifest.canonical_bytes(), *model.files.values()):
            if Digest.of(data) not in there:  # what is there is not fetched again
                self.blobs.put(data)
        self.blobs.settle()
        slot = Slot.of(model.manifest)
        self.slots.install(slot)
        self.published.follow(thorough=True)
        self.blobs.clean(self.slots.digests())
        return slot

    def folders(self) -> list[str]:
        """Names of all folders of models, hidden ones too."""
        return sorted(item.name for item in (self.folder / "models").iterdir())
