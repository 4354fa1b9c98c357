"""The active model as files that any program on the device can read.

    current                  a link to one of the folders below, replaced in one step
    models/VERSION-DIGEST/   frozen.onnx, head.onnx, labels.txt, manifest.json; never changed

- `current` follows the slots: they decide, and each start of the agent mends what a crash has left
  between the two. Whenever the power goes, `current` leads to a whole folder.
- The files are those of the blob folder under second names, so they take no space of their own, and
  stay when the blob folder is cleaned. A disk that knows no second names holds copies.
- The folders of both slots stay; another one goes when nobody holds a lease of it.
- A disk that refuses keeps nobody from the switch: the agent goes on, says so in its log, and tries
  again with each of its next works.
"""

from __future__ import annotations

import logging
from pathlib import Path

from fleetledger.device_agent.errors import LoadError, ModelError
from fleetledger.device_agent.home.store.blobs import (
    BlobFolder,
    make_folder,
    sync_folder,
    write_durably,
)
from fleetledger.device_agent.models.inference.leases import CURRENT, leave_unless_leased
from fleetledger.device_agent.models.inference.second_names import holds_blob, link_blob
from fleetledger.device_agent.models.slots import ModelSlots, Slot
from fleetledger.runtime.errors import SchemaError
from fleetledger.schemas.models import Manifest
from fleetledger.schemas.values import Digest
from fleetledger.schemas.variants import VARIANT_NAMES, VariantName

log = logging.getLogger("device_agent.inference")

FOLDER = "models"
FROZEN, HEAD, LABELS, MANIFEST = "frozen.onnx", "head.onnx", "labels.txt", "manifest.json"


class PublishedModels:
    """What lies in a home for other programs; for one thread of the one agent that runs there."""

    def __init__(self, home: Path, blobs: BlobFolder, slots: ModelSlots) -> None:
        self._home = home
        self._folder = home / FOLDER
        self._blobs = blobs
        self._slots = slots
        self._seen: tuple[Slot | None, ...] | None = None
        """The slots at the last time that everything was done."""
        self._complaint = ""

    def follow(self, *, thorough: bool = False) -> None:
        """Have `current` lead to the active model, and remove what nobody needs.

        Where nothing has changed it looks at the slots alone, unless it is to be `thorough`.
        """
        slots = (self._slots.active(), self._slots.other())
        if slots == self._seen and not thorough:
            return
        try:
            done = self._bring_to(*slots)
        except (OSError, ModelError, SchemaError) as error:
            self._complain(f"{self._home / CURRENT}: applications do not get this model: {error}")
            return
        self._seen, self._complaint = (slots if done else None), ""

    def _bring_to(self, active: Slot | None, other: Slot | None) -> bool:
        """Return whether nothing is left to do."""
        make_folder(self._folder)
        if active is not None:
            self._make_whole(active)
        self._point_at(active)
        return self._clean({name_of(slot) for slot in (active, other) if slot is not None})

    def _make_whole(self, slot: Slot) -> None:
        """Have the folder of a slot as its manifest says; raise `DamagedError` or `OSError`."""
        manifest = Manifest.read(self._blobs.read(slot.manifest))
        folder, beside = self._folder / name_of(slot), self._folder / f".{name_of(slot)}.new"
        files = {
            FROZEN: manifest.frozen_with(slot.variant).digest,
            HEAD: manifest.head.digest,
            MANIFEST: slot.manifest,
        }
        if _is_whole(folder, files, self._blobs):
            return
        _remove(beside)
        beside.mkdir()
        for name, digest in files.items():
            link_blob(beside / name, self._blobs.path(digest))
        # The last one makes the names of all durable.
        write_durably(beside / LABELS, labels_of(manifest).encode("utf-8"))
        if folder.exists():
            damaged = self._folder / f".{name_of(slot)}.damaged"
            _remove(damaged)
            folder.replace(damaged)
        beside.replace(folder)
        sync_folder(self._folder)

    def _point_at(self, slot: Slot | None) -> None:
        link = self._home / CURRENT
        if slot is None:
            link.unlink(missing_ok=True)
        elif not link.is_symlink() or link.readlink() != _target(slot):
            beside = self._home / f".{CURRENT}.new"
            beside.unlink(missing_ok=True)
            beside.symlink_to(_target(slot))
            beside.replace(link)
        sync_folder(self._home)

    def _clean(self, keep: set[str]) -> bool:
        """Return whether nothing is left that a lease keeps."""
        others = [item for item in self._folder.iterdir() if item.name not in keep]
        leased = [item for item in others if not self._let_go(item)]
        return not leased

    def _let_go(self, folder: Path) -> bool:
        if not folder.name.startswith("."):
            leaving = folder.with_name(f".{folder.name}.leaving")
            _remove(leaving)
            if not leave_unless_leased(folder, leaving):
                return False
            # Before its files go: under its own name a folder is whole.
            sync_folder(self._folder)
            folder = leaving
        _remove(folder)
        return True

    def _complain(self, text: str) -> None:
        if text != self._complaint:
            log.warning("%s", text)
        self._complaint = text


def name_of(slot: Slot) -> str:
    """Return the name of a slot's folder; that of a variant says so."""
    variant = "" if slot.variant is None else f"-{slot.variant}"
    return f"{slot.version}-{slot.manifest[:16]}{variant}"


def variant_in(folder: Path) -> VariantName | None:
    """Return the variant of the frozen part in a folder, by its name; None for the reference."""
    return next((name for name in VARIANT_NAMES if folder.name.endswith(f"-{name}")), None)


def labels_of(manifest: Manifest) -> str:
    """Return the class of each score, one a line."""
    return "".join(f"{name}\n" for name in manifest.class_names)


def read_published(folder: Path) -> Manifest:
    """Return the manifest of a folder; raise `LoadError` where it is not the one in its name."""
    try:
        data = (folder / MANIFEST).read_bytes()
        manifest = Manifest.read(data)
    except (OSError, SchemaError) as error:
        raise LoadError(f"{folder}: {error}; see `fleetledger agent status`") from error
    variant = variant_in(folder)
    if folder.name != name_of(Slot.of(manifest, variant)) or (
        variant is not None and manifest.variant(variant) is None
    ):
        raise LoadError(f"{folder}: holds another manifest; restart the agent, which mends it")
    return manifest


def _target(slot: Slot) -> Path:
    return Path(FOLDER) / name_of(slot)


def _is_whole(folder: Path, files: dict[str, Digest], blobs: BlobFolder) -> bool:
    try:
        return (folder / LABELS).is_file() and all(
            holds_blob(folder / name, blobs.path(digest), digest) for name, digest in files.items()
        )
    except OSError:
        return False


def _remove(folder: Path) -> None:
    if folder.is_symlink() or not folder.is_dir():
        folder.unlink(missing_ok=True)
        return
    for item in folder.iterdir():
        _remove(item)
    folder.rmdir()
