"""Two slots for models: a slot is a small file of digests, and `active` is a link to one of them.

- A new model is written into the slot that is not active; then the link is replaced in one step.
  Whenever the power goes, the link points at a whole slot, the old one or the new one.
- The former model stays in its slot, so that going back moves a link and fetches nothing.
- The files themselves lie in the blob folder, once, however many slots name them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import ValidationError

from device_agent.core.records import ActiveModel
from device_agent.errors import ModelError
from device_agent.store.blobs import make_folder, sync_folder, write_durably
from schemas.message import Strict
from schemas.models import Manifest, Version
from schemas.values import Digest

SlotName = Literal["a", "b"]
_ACTIVE = "active"


class Slot(Strict):
    """One installed model: its version, its manifest, and the files that the manifest pins."""

    version: Version
    manifest: Digest
    files: tuple[Digest, ...]

    @classmethod
    def of(cls, manifest: Manifest) -> Slot:
        """Return the slot of a manifest."""
        files = tuple(reference.digest for reference in manifest.files)
        return cls(version=manifest.version, manifest=manifest.digest, files=files)

    @property
    def model(self) -> ActiveModel:
        """Version and manifest, as the rules know them."""
        return ActiveModel(self.version, self.manifest)


class ModelSlots:
    """The two slots in `folder`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        """Where they are; what else is known of their models lies beside them."""
        make_folder(folder)

    def active(self) -> Slot | None:
        """Return the slot that is in use."""
        name = self._active_name()
        return self._read(name) if name is not None else None

    def other(self) -> Slot | None:
        """Return the slot to which the device can go back."""
        return self._read(_opposite(self._active_name()))

    def install(self, slot: Slot) -> None:
        """Make `slot` active and keep the former one; what is active already stays so.

        Raises `ModelError` when the disk refuses; the former one is active then.
        """
        name = _opposite(self._active_name())
        try:
            if slot == self.active():
                # An earlier run may have been killed before it made the link durable.
                sync_folder(self.folder)
                return
            if slot != self._read(name):
                write_durably(self._path(name), slot.model_dump_json().encode("utf-8"))
            self._point_at(name)
        except OSError as error:
            if slot != self.active():
                raise self._full(error) from error
            # The link was moved and cannot be made durable: it may be back after a power cut.

    def go_back(self) -> Slot | None:
        """Make the other slot active and forget this one; return what is active then, if anything.

        Forgetting comes last: after a crash in between, this one is merely the other slot. Raises
        `ModelError` when the disk refuses.
        """
        failed = self._active_name()
        other = _opposite(failed)
        try:
            if self._read(other) is not None:
                self._point_at(other)
            else:
                (self.folder / _ACTIVE).unlink(missing_ok=True)
            if failed is not None:
                self._path(failed).unlink(missing_ok=True)
            sync_folder(self.folder)
        except OSError as error:
            raise self._full(error) from error
        return self.active()

    def digests(self) -> frozenset[Digest]:
        """Return everything that the slots name: manifests and files."""
        slots = [slot for slot in (self.active(), self.other()) if slot is not None]
        return frozenset(digest for slot in slots for digest in (slot.manifest, *slot.files))

    def _full(self, error: OSError) -> ModelError:
        return ModelError(
            f"{self.folder}: the slot cannot be written: {error.strerror}; free some space"
        )

    def _path(self, name: SlotName) -> Path:
        return self.folder / f"{name}.json"

    def _active_name(self) -> SlotName | None:
        link = self.folder / _ACTIVE
        names: tuple[SlotName, ...] = ("a", "b")
        target = link.readlink().name if link.is_symlink() else ""
        return next((name for name in names if target == self._path(name).name), None)

    def _read(self, name: SlotName) -> Slot | None:
        """Return a slot; None for an empty one, or one that this program cannot read."""
        try:
            return Slot.model_validate_json(self._path(name).read_bytes())
        except (FileNotFoundError, ValidationError):
            return None

    def _point_at(self, name: SlotName) -> None:
        link = self.folder / f"{_ACTIVE}.new"
        link.unlink(missing_ok=True)
        link.symlink_to(self._path(name).name)
        link.replace(self.folder / _ACTIVE)
        sync_folder(self.folder)


def _opposite(name: SlotName | None) -> SlotName:
    return "b" if name == "a" else "a"
