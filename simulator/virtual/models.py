"""Models in memory, once for all devices of a world: each is verified and self-tested once."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from fleetledger.device_agent.home.store.blobs import BlobFolder
from fleetledger.device_agent.models.host import ModelHost
from fleetledger.device_agent.models.inference.installed_model import Inputs, SessionSettings
from fleetledger.device_agent.models.installer import Installer
from fleetledger.device_agent.models.self_test_samples import MAX_SAMPLES
from fleetledger.device_agent.models.slots import ModelSlots
from fleetledger.device_agent.samples.images import PictureFile, read_pictures
from fleetledger.schemas.models import AnyPreprocessing, Manifest
from fleetledger.schemas.values import Digest
from fleetledger.schemas.variants import VariantName


class SharedModels(ModelHost):
    """A model host whose manifests stay read, and that knows which models passed their test."""

    def __init__(self, blobs: BlobFolder) -> None:
        super().__init__(blobs, SessionSettings())
        self.blobs = blobs
        self.passed: set[tuple[Digest, VariantName | None]] = set()
        self._manifests: dict[Digest, Manifest] = {}

    def manifest(self, digest: Digest) -> Manifest:
        """Read a manifest, from the disk the first time."""
        if digest not in self._manifests:
            self._manifests[digest] = super().manifest(digest)
        return self._manifests[digest]

    def _give_back(self) -> None:
        """Keep what is free for the next device: to collect garbage takes longer than to load."""


class SharingInstaller(Installer):
    """One device's installer: a model that passed on another device passes here too."""

    def __init__(self, models: SharedModels, slots: ModelSlots, held_out: Path | None) -> None:
        """Test models on a few pictures of the folder `held_out`, too, where there is one."""
        super().__init__(models.blobs, slots, models, partial(_samples, held_out))
        self._models = models

    def test(self, manifest: Manifest, variant: VariantName | None = None) -> None:
        """Verify and self-test a model that no device has tested yet; raise `ModelError`."""
        tested = (manifest.digest, variant)
        if tested not in self._models.passed:
            super().test(manifest, variant)
            self._models.passed.add(tested)


def _samples(folder: Path | None, preprocessing: AnyPreprocessing) -> Sequence[Inputs]:
    """Return the first pictures of a folder as a model sees them, without what cannot be read."""
    pictures = sorted(folder.rglob("*.png"))[:MAX_SAMPLES] if folder is not None else []
    outcomes = read_pictures([PictureFile(path) for path in pictures], preprocessing)
    return [outcome.pixels for outcome in outcomes if outcome.pixels is not None]
