"""Checks an exported ledger offline: nothing is read but the folder and the coordinator's key.

Every entry's bytes, the tree over them, the tiles, and the signature over its root; with an older
checkpoint, or the proof of an entry, that they belong to the same history.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from coordinator.errors import AuditError, EntryError
from coordinator.ledger.entries import MAX_BODY_BYTES, Entry, read_canonical
from coordinator.ledger.tiles import TILE_LEVELS, TILE_WIDTH, tile_name, widths
from schemas.errors import SignatureError
from schemas.keys import VerifyKey
from schemas.proofs.checkpoint import MAX_NOTE_BYTES, Checkpoint
from schemas.proofs.tree import HASH_BYTES, Frontier, node_hash
from schemas.values import FleetId

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
            f"{signed.size} entries of {signed.fleet} fit what was signed; root {signed.root}\n"
            f"{counted}"
        )


def audit(folder: Path, fleet: FleetId, keys: tuple[VerifyKey, ...]) -> Audited:
    """Return what an exported ledger says; raise `AuditError` at the first thing that is wrong."""
    note = _read(folder / "checkpoint", MAX_NOTE_BYTES).decode("utf-8", "replace")
    try:
        checkpoint = Checkpoint.read(note, fleet, keys)
    except SignatureError as error:
        raise AuditError(f"{folder / 'checkpoint'}: {error}") from error
    frontier, kinds = Frontier(), dict[str, int]()
    level: list[bytes] = []
    for number, width in enumerate(widths(checkpoint.size)):
        leaves = []
        for entry in _entries(folder, number, width):
            leaves.append(entry.leaf_hash)
            kinds[entry.kind] = kinds.get(entry.kind, 0) + 1
        _check_tile(folder, 0, number, leaves)
        frontier = frontier.grown(leaves)
        if width == TILE_WIDTH:
            level.append(_folded(leaves))
    if frontier.root.hex() != checkpoint.root:
        raise AuditError(
            f"{folder / 'entries'}: give the root {frontier.root.hex()}, and the coordinator "
            f"signed {checkpoint.root} over {checkpoint.size} entries; some were changed"
        )
    _check_upper_tiles(folder, level)
    return Audited(checkpoint, kinds)


def exported_entries(folder: Path) -> Iterator[Entry]:
    """Yield all entries of an export in their order, each as it was written.

    Whether they are what the coordinator signed is left to `audit`. Raises `AuditError` where the
    folder is no export.
    """
    note = _read(folder / "checkpoint", MAX_NOTE_BYTES).decode("utf-8", "replace").split("\n")
    if len(note) < _NOTE_LINES or not (note[1].isascii() and note[1].isdecimal()):
        raise AuditError(f"{folder / 'checkpoint'}: is no checkpoint; name a folder of `export`")
    for number, width in enumerate(widths(int(note[1]))):
        yield from _entries(folder, number, width)


def entry_at(folder: Path, index: int, size: int) -> Entry:
    """Return one entry of an export of `size` entries; raise `AuditError`."""
    number = index // TILE_WIDTH
    width = min(TILE_WIDTH, size - number * TILE_WIDTH)
    return next(itertools.islice(_entries(folder, number, width), index % TILE_WIDTH, None))


def _entries(folder: Path, number: int, width: int) -> Iterator[Entry]:
    """Yield the entries of a bundle, each with the index that its place gives it."""
    file = folder / "entries" / tile_name(number, width)
    lines = _read(file, _MAX_BUNDLE_BYTES).split(b"\n")
    if len(lines) != 2 * width + 1 or lines[-1]:
        raise AuditError(f"{file}: holds {len(lines) // 2} entries, and {width} belong into it")
    for place in range(width):
        index = number * TILE_WIDTH + place
        try:
            entry = read_canonical(b"\n".join(lines[2 * place : 2 * place + 2]))
        except EntryError as error:
            raise AuditError(f"{file}: entry {index}: {error}") from error
        if entry.index != index:
            raise AuditError(f"{file}: entry {index}: says that it is number {entry.index}")
        yield entry


def _check_upper_tiles(folder: Path, nodes: list[bytes]) -> None:
    level = 1
    while nodes:
        above = []
        for number in range(-(-len(nodes) // TILE_WIDTH)):
            tile = nodes[number * TILE_WIDTH : (number + 1) * TILE_WIDTH]
            _check_tile(folder, level, number, tile)
            if len(tile) == TILE_WIDTH:
                above.append(_folded(tile))
        nodes, level = above, level + 1


def _check_tile(folder: Path, level: int, number: int, expected: list[bytes]) -> None:
    file = folder / "tile" / str(level) / tile_name(number, len(expected))
    if _read(file, TILE_WIDTH * HASH_BYTES) != b"".join(expected):
        raise AuditError(f"{file}: holds other hashes than follow from the entries")


def _folded(hashes: list[bytes]) -> bytes:
    """Return the root over one full tile."""
    for _ in range(TILE_LEVELS):
        hashes = [node_hash(*hashes[n : n + 2]) for n in range(0, len(hashes), 2)]
    return hashes[0]


def _read(file: Path, most: int) -> bytes:
    """Return a file of at most so many bytes; raise `AuditError` where it is not there."""
    try:
        with file.open("rb") as opened:
            data = opened.read(most + 1)
    except OSError as error:
        raise AuditError(f"{file}: cannot be read: {error.strerror}; export anew") from error
    if len(data) > most:
        raise AuditError(f"{file}: is larger than {most} bytes; no export writes such a file")
    return data
