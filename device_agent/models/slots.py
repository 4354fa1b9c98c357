"""Slots for models: a slot is a small file of digests, and `active` is a link to one of two.

- A new model is written into the slot that is not active; then the link is replaced in one step.
  Whenever the power goes, the link points at a whole slot, the old one or the new one.
- The former model stays in its slot, so that going back moves a link and fetches nothing.
- A third slot keeps a candidate, which is compared with the active model and is never active: it
  costs nobody the way back. Switching to it writes one of the two; then the third one is emptied,
  and what a crash has left there counts for nothing.
- The files themselves lie in the blob folder, once, however many slots name them.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError

from fleetledger.device_agent.core.records import ActiveModel
from fleetledger.device_agent.errors import ModelError
from fleetledger.device_agent.home.store.blobs import make_folder, sync_folder, write_durably
from fleetledger.runtime.strict import Strict
from fleetledger.schemas.message import is_absent
from fleetledger.schemas.models import Manifest, Version
from fleetledger.schemas.values import Digest
from fleetledger.schemas.variants import VariantName

SlotName = Literal["a", "b"]
_ACTIVE = "active"
_CANDIDATE = "candidate.json"


class Slot(Strict):
    """One installed model: its version, its manifest, and the files that the manifest pins."""

    version: Version
    manifest: Digest
    files: tuple[Digest, ...]
    variant: VariantName | None = Field(default=None, exclude_if=is_absent)
    """The variant of the frozen part that it runs on; None for the reference."""

    @classmethod
    def of(cls, manifest: Manifest, variant: VariantName | None = None) -> Slot:
        """Return the slot of a manifest."""
        files = tuple(reference.digest for reference in manifest.files_with(variant))
        return cls(version=manifest.version, manifest=manifest.digest, files=files, variant=variant)

    @property
    def model(self) -> ActiveModel:
        """Version and manifest, as the rules know them."""
        return ActiveModel(self.version, self.manifest)


class ModelSlots:
    """The slots in `folder`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        """Where they are; what else is known of their models lies beside them."""
        make_folder(folder)
        # A killed run may have moved names that are not durable; from now on they are in use.
        sync_folder(folder)

    def active(self) -> Slot | None:
        """Return the slot that is in use."""
        name = self._active_name()
        return self._read(name) if name is not None else None

    def other(self) -> Slot | None:
        """Return the slot to which the device can go back."""
        return self._read(_opposite(self._active_name()))

    def candidate(self) -> Slot | None:
        """Return what is kept to be compared; None where that is active by now."""
        slot = self._read_file(self.folder / _CANDIDATE)
        return None if slot is None or slot == self.active() else slot

    def variant_of(self, manifest: Digest) -> VariantName | None:
        """Return the variant on which a model in a slot runs; None for the reference."""
        slots = (self.active(), self.candidate(), self.other())
        found = (slot for slot in slots if slot is not None and slot.manifest == manifest)
        return next((slot.variant for slot in found), None)

    def keep_candidate(self, slot: Slot) -> None:
        """Keep `slot` as candidate, in place of another one; raise `ModelError`."""
        try:
            if slot != self.candidate():
                write_durably(self.folder / _CANDIDATE, slot.model_dump_json().encode("utf-8"))
            sync_folder(self.folder)
        except OSError as error:
            raise self._full(error) from error

    def forget_candidate(self) -> None:
        """Empty the third slot; what a disk refuses to remove is left for the next time."""
        with suppress(OSError):
            path = self.folder / _CANDIDATE
            if path.exists():
                path.unlink()
                sync_folder(self.folder)

    def install(self, slot: Slot) -> None:
        """Make `slot` active and keep the former one; what is active already stays so.

        The same model on another variant takes the active slot's place. There is no candidate
        then. Raises `ModelError` when the disk refuses; the former one is active then.
        """
        active = self.active()
        if active is not None and active != slot and active.model == slot.model:
            self.change_active(slot)
        else:
            self._switch_to(slot)
        self.forget_candidate()

    def change_active(self, slot: Slot) -> None:
        """Let the active model run on another variant; raise `ModelError` when the disk refuses."""
        name = self._active_name()
        assert name is not None, "a model is active"
        try:
            write_durably(self._path(name), slot.model_dump_json().encode("utf-8"))
            sync_folder(self.folder)
        except OSError as error:
            raise self._full(error) from error

    def _switch_to(self, slot: Slot) -> None:
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
        slots = (self.active(), self.other(), self.candidate())
        return frozenset(
            digest for slot in slots if slot is not None for digest in (slot.manifest, *slot.files)
        )

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
        return self._read_file(self._path(name))

    def _read_file(self, path: Path) -> Slot | None:
        try:
            return Slot.model_validate_json(path.read_bytes())
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
