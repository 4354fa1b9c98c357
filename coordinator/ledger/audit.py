"""Checks an exported or mirrored ledger: nothing is read but its files and the coordinator's key.

Every entry's bytes, the tree over them, the tiles, and the signature over its root; with an older
checkpoint, or the proof of an entry, that they belong to the same history.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from coordinator.errors import AuditError, BlobError, EntryError
from coordinator.ledger.entries import MAX_BODY_BYTES, Entry, read_canonical
from coordinator.ledger.objects import Objects, objects_at
from coordinator.ledger.tiles import (
    CHECKPOINT,
    TILE_LEVELS,
    TILE_WIDTH,
    tile_name,
    tile_path,
    widths,
)
from schemas.errors import SignatureError
from schemas.keys import VerifyKey
from schemas.proofs.checkpoint import MAX_NOTE_BYTES, Checkpoint
from schemas.proofs.tree import HASH_BYTES, Frontier, node_hash
from schemas.values import Digest, FleetId

_NOTE_LINES = 3
"""Of a checkpoint at least: whose log it is of, how many entries, their root."""
_MAX_BUNDLE_BYTES = TILE_WIDTH * 2 * MAX_BODY_BYTES


@dataclass(frozen=True)
class SignedNote:
    """A checkpoint, and the text that says so."""

    note: str
    checkpoint: Checkpoint

    def note_at(self, size: int, root: Digest) -> str | None:
        """Return the text for a ledger of this size and root; None for any other."""
        is_it = (size, root) == (self.checkpoint.size, self.checkpoint.root)
        return self.note if is_it else None


@dataclass(frozen=True)
class Audited:
    """What an export says that holds."""

    checkpoint: Checkpoint
    kinds: dict[str, int]
    """Number of entries by kind."""

    def __str__(self) -> str:
        """Return one sentence for whoever audited it."""
        signed = self.checkpoint
        counted = ", ".join(f"{count} {kind}" for kind, count in sorted(self.kinds.items()))
        return (
            f"{signed.size} entries of {signed.fleet} fit what was signed; root {signed.root}\n"
            f"{counted}"
        )


def audit(exported: str | Path, fleet: FleetId, keys: tuple[VerifyKey, ...]) -> Audited:
    """Return what an exported ledger says; raise `AuditError` at the first thing that is wrong."""
    objects = _opened(exported)
    checkpoint = signed_checkpoint(objects, fleet, keys).checkpoint
    frontier, kinds = Frontier(), dict[str, int]()
    level: list[bytes] = []
    for number, width in enumerate(widths(checkpoint.size)):
        leaves = []
        for entry in bundled_entries(objects, number, width):
            leaves.append(entry.leaf_hash)
            kinds[entry.kind] = kinds.get(entry.kind, 0) + 1
        _check_tile(objects, 0, number, leaves)
        frontier = frontier.grown(leaves)
        if width == TILE_WIDTH:
            level.append(_folded(leaves))
    check_root(objects, frontier, checkpoint)
    _check_upper_tiles(objects, level)
    return Audited(checkpoint, kinds)


def signed_checkpoint(objects: Objects, fleet: FleetId, keys: tuple[VerifyKey, ...]) -> SignedNote:
    """Return the checkpoint that lies there; raise `AuditError` unless one of `keys` signed it."""
    note = note_at(objects)
    try:
        return SignedNote(note, Checkpoint.read(note, fleet, keys))
    except SignatureError as error:
        raise AuditError(f"{objects.place(CHECKPOINT)}: {error}") from error


def note_at(objects: Objects) -> str:
    """Return the note of the checkpoint that lies there, unread; raise `AuditError`."""
    return _read(objects, CHECKPOINT, MAX_NOTE_BYTES).decode("utf-8", "replace")


def check_root(objects: Objects, frontier: Frontier, checkpoint: Checkpoint) -> None:
    """Raise `AuditError` unless the entries that were read are those that were signed."""
    if frontier.root.hex() != checkpoint.root:
        raise AuditError(
            f"{objects.place('entries')}: give the root {frontier.root.hex()}, and the coordinator "
            f"signed {checkpoint.root} over {checkpoint.size} entries; some were changed"
        )


def exported_entries(folder: str | Path) -> Iterator[Entry]:
    """Yield all entries of an export in their order, each as it was written.

    Whether they are what the coordinator signed is left to `audit`. Raises `AuditError` where the
    folder is no export.
    """
    objects = _opened(folder)
    note = note_at(objects).split("\n")
    if len(note) < _NOTE_LINES or not (note[1].isascii() and note[1].isdecimal()):
        raise AuditError(
            f"{objects.place(CHECKPOINT)}: is no checkpoint; name a folder of `export`"
        )
    for number, width in enumerate(widths(int(note[1]))):
        yield from bundled_entries(objects, number, width)


def entry_at(folder: str | Path, index: int, size: int) -> Entry:
    """Return one entry of an export of `size` entries; raise `AuditError`."""
    number = index // TILE_WIDTH
    width = min(TILE_WIDTH, size - number * TILE_WIDTH)
    entries = bundled_entries(_opened(folder), number, width)
    return next(itertools.islice(entries, index % TILE_WIDTH, None))


def bundled_entries(objects: Objects, number: int, width: int) -> Iterator[Entry]:
    """Yield the entries of a bundle, each with the index that its place gives it.

    They are in their one spelling; whether they were signed `check_root` says. Raises `AuditError`.
    """
    name = f"entries/{tile_name(number, width)}"
    place = objects.place(name)
    data = _found(objects, name, _MAX_BUNDLE_BYTES)
    if data is None:  # who mirrors a ledger takes partial bundles away when they are full
        full = f"entries/{tile_name(number, TILE_WIDTH)}"
        held = _read(objects, full, _MAX_BUNDLE_BYTES, named=name)
        data = b"".join(held.splitlines(keepends=True)[: 2 * width])
    lines = data.split(b"\n")
    if len(lines) != 2 * width + 1 or lines[-1]:
        raise AuditError(f"{place}: holds {len(lines) // 2} entries, and {width} belong into it")
    for position in range(width):
        index = number * TILE_WIDTH + position
        try:
            entry = read_canonical(b"\n".join(lines[2 * position : 2 * position + 2]))
        except EntryError as error:
            raise AuditError(f"{place}: entry {index}: {error}") from error
        if entry.index != index:
            raise AuditError(f"{place}: entry {index}: says that it is number {entry.index}")
        yield entry


def _opened(location: str | Path) -> Objects:
    try:
        return objects_at(location)
    except BlobError as error:
        raise AuditError(str(error)) from error


def _check_upper_tiles(objects: Objects, nodes: list[bytes]) -> None:
    level = 1
    while nodes:
        above = []
        for number in range(-(-len(nodes) // TILE_WIDTH)):
            tile = nodes[number * TILE_WIDTH : (number + 1) * TILE_WIDTH]
            _check_tile(objects, level, number, tile)
            if len(tile) == TILE_WIDTH:
                above.append(_folded(tile))
        nodes, level = above, level + 1


def _check_tile(objects: Objects, level: int, number: int, expected: list[bytes]) -> None:
    name, most = tile_path(level, number, len(expected)), TILE_WIDTH * HASH_BYTES
    data = _found(objects, name, most)
    if data is None:
        full = _read(objects, tile_path(level, number, TILE_WIDTH), most, named=name)
        data = full[: len(expected) * HASH_BYTES]
    if data != b"".join(expected):
        raise AuditError(f"{objects.place(name)}: holds other hashes than follow from the entries")


def _folded(hashes: list[bytes]) -> bytes:
    """Return the root over one full tile."""
    for _ in range(TILE_LEVELS):
        hashes = [node_hash(*hashes[n : n + 2]) for n in range(0, len(hashes), 2)]
    return hashes[0]


def _read(objects: Objects, name: str, most: int, named: str = "") -> bytes:
    """Return an object of at most so many bytes; raise `AuditError` where it is not there.

    The error is about `named`, where that is what was looked for first.
    """
    data = _found(objects, name, most)
    if data is None:
        raise AuditError(f"{objects.place(named or name)}: is not there; export anew")
    return data


def _found(objects: Objects, name: str, most: int) -> bytes | None:
    try:
        data = objects.read(name, most + 1)
    except BlobError as error:
        raise AuditError(str(error)) from error
    if data is not None and len(data) > most:
        raise AuditError(
            f"{objects.place(name)}: is larger than {most} bytes; no export writes such a file"
        )
    return data
