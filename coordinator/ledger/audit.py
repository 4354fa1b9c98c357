"""Checks an exported or mirrored ledger: nothing is read but its files and the coordinator's key.

Every entry's bytes, the tree over them, the tiles, and the signature over its root; with an older
checkpoint, or the proof of an entry, that they belong to the same history.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from fleetledger.coordinator.errors import AuditError, BlobError, EntryError
from fleetledger.coordinator.ledger.entries import MAX_BODY_BYTES, Entry, read_canonical
from fleetledger.coordinator.ledger.objects import Objects, objects_at
from fleetledger.coordinator.ledger.tiles import (
    CHECKPOINT,
    TILE_LEVELS,
    TILE_WIDTH,
    tile_name,
    tile_path,
    widths,
)
from fleetledger.runtime.count_words import agree, count_of
from fleetledger.schemas.errors import SignatureError
from fleetledger.schemas.keys import VerifyKey
from fleetledger.schemas.proofs.checkpoint import MAX_NOTE_BYTES, Checkpoint
from fleetledger.schemas.proofs.tree import HASH_BYTES, Frontier, node_hash
from fleetledger.schemas.values import FleetId

_NOTE_LINES = 3
"""Of a checkpoint at least: whose log it is of, how many entries, their root."""
_MAX_BUNDLE_BYTES = TILE_WIDTH * 2 * MAX_BODY_BYTES


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
            f"{count_of(signed.size, 'entry', 'entries')} of {signed.fleet} "
            f"{agree(signed.size, 'fits', 'fit')} what was signed; root {signed.root}\n"
            f"{counted}"
        )


def audit(exported: str | Path, fleet: FleetId, keys: tuple[VerifyKey, ...]) -> Audited:
    """Return what an exported ledger says; raise `AuditError` at the first thing that is wrong."""
    objects = _opened(exported)
    _, signed = signed_note(objects, fleet, keys)
    kinds, frontier, level = Counter[str](), Frontier(), list[bytes]()
    for number, width in enumerate(widths(signed.size)):
        leaves = []
        for entry in bundled_entries(objects, number, width):
            leaves.append(entry.leaf_hash)
            kinds[entry.kind] += 1
        _check_tile(objects, 0, number, leaves)
        frontier = frontier.grown(leaves)
        if width == TILE_WIDTH:
            level.append(_folded(leaves))
    check_root(objects, signed, frontier)
    _check_upper_tiles(objects, level)
    return Audited(signed, kinds)


def signed_note(
    objects: Objects, fleet: FleetId, keys: tuple[VerifyKey, ...]
) -> tuple[str, Checkpoint]:
    """Return the note that lies there and its checkpoint.

    Raises `AuditError` unless one of `keys` signed it.
    """
    note = note_at(objects)
    try:
        return note, Checkpoint.read(note, fleet, keys)
    except SignatureError as error:
        raise AuditError(f"{objects.place(CHECKPOINT)}: {error}") from error


def note_at(objects: Objects) -> str:
    """Return the note of the checkpoint that lies there, unread; raise `AuditError`."""
    return _read(objects, CHECKPOINT, MAX_NOTE_BYTES).decode("utf-8", "replace")


def check_root(objects: Objects, signed: Checkpoint, frontier: Frontier) -> None:
    """Raise `AuditError` unless the entries that were read are those that were signed."""
    if frontier.root.hex() != signed.root:
        raise AuditError(
            f"{objects.place('entries')}: give the root {frontier.root.hex()}, and the "
            f"coordinator signed {signed.root} over {count_of(signed.size, 'entry', 'entries')}; "
            f"some were changed"
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
        raise AuditError(
            f"{place}: holds {count_of(len(lines) // 2, 'entry', 'entries')}, and "
            f"{width} belong into it"
        )
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
