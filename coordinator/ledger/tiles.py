r"""The ledger as a folder of files that need no program to be read, and no server but a file host.

    checkpoint            the newest signed note
    tile/<level>/<n>      256 hashes of 32 bytes: the tree's nodes of level 8 * <level>
    entries/<n>           up to 256 entries, each as its bytes and a line feed: two lines of JSON

Checkpoint and hash tiles are those of C2SP's tlog-tiles, so its readers and witnesses can use them.
<n> is written in groups of three digits, all but the last with an x before it: 1234067 is
x001/x234/067. The last tile of a level, while it has fewer than 256, is <n>.p/<width>. Entries are
laid out in an own way, because theirs may not exceed 64 KiB.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from coordinator.errors import AuditError
from coordinator.ledger.reader import LedgerReader

TILE_LEVELS = 8
"""Levels of the tree from one row of tiles to the next."""
TILE_WIDTH = 1 << TILE_LEVELS


def export(ledger: LedgerReader, folder: Path) -> int:
    """Write the ledger into a new or empty folder; return the number of entries.

    Raises `AuditError` where the newest checkpoint is not signed, or the folder holds something.
    """
    newest = ledger.checkpoint
    if newest is None or newest.note is None:
        raise AuditError("checkpoint: none is signed yet; start the coordinator once, then export")
    if folder.is_dir() and any(folder.iterdir()):
        raise AuditError(f"{folder}: is not empty; name a new folder")
    leaves: list[bytes] = []
    for number, width in enumerate(widths(newest.size)):
        start = number * TILE_WIDTH
        entries = list(ledger.entries(start, start + width))
        lines = b"".join(entry.canonical + b"\n" for entry in entries)
        _write(folder / "entries" / tile_name(number, width), lines)
        leaves.extend(entry.leaf_hash for entry in entries)
        _write(folder / "tile" / "0" / tile_name(number, width), b"".join(leaves))
        leaves.clear()
    level = 1
    while newest.size >> (TILE_LEVELS * level):
        count = newest.size >> (TILE_LEVELS * level)
        for number, width in enumerate(widths(count)):
            first = number * TILE_WIDTH
            nodes = (ledger.subtree(TILE_LEVELS * level, first + n) for n in range(width))
            _write(folder / "tile" / str(level) / tile_name(number, width), b"".join(nodes))
        level += 1
    _write(folder / "checkpoint", newest.note.encode())
    return newest.size


def widths(count: int) -> Iterator[int]:
    """Yield how many of `count` hashes each tile of a level holds."""
    full, rest = divmod(count, TILE_WIDTH)
    yield from (TILE_WIDTH for _ in range(full))
    if rest:
        yield rest


def tile_name(number: int, width: int) -> str:
    """Return the name of a level's tile that holds `width` hashes."""
    groups = [f"{number % 1000:03}"]
    while number := number // 1000:
        groups.insert(0, f"x{number % 1000:03}")
    name = "/".join(groups)
    return name if width == TILE_WIDTH else f"{name}.p/{width}"


def _write(file: Path, data: bytes) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(data)
