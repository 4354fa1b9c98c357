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

from fleetledger.coordinator.errors import AuditError
from fleetledger.coordinator.ledger.objects import objects_at
from fleetledger.coordinator.ledger.reader import LedgerReader

CHECKPOINT = "checkpoint"
TILE_LEVELS = 8
"""Levels of the tree from one row of tiles to the next."""
TILE_WIDTH = 1 << TILE_LEVELS


def export(ledger: LedgerReader, folder: Path) -> int:
    """Write the ledger into a new or empty folder; return the number of entries.

    Raises `AuditError` where the newest checkpoint is not signed, or the folder holds something,
    and `BlobError` where the disk refuses.
    """
    newest = ledger.checkpoint
    if newest is None or newest.note is None:
        raise AuditError("checkpoint: none is signed yet; start the coordinator once, then export")
    if folder.is_dir() and any(folder.iterdir()):
        raise AuditError(f"{folder}: is not empty; name a new folder")
    objects = objects_at(folder, durable=False)
    for name, data in tiles_between(ledger, 0, newest.size):
        objects.write(name, data)
    objects.write(CHECKPOINT, newest.note.encode())
    return newest.size


def tiles_between(ledger: LedgerReader, old: int, size: int) -> Iterator[tuple[str, bytes]]:
    """Yield names and bytes of the tiles that a log of `size` entries has, and one of `old` not."""
    for number, width in _changed(old, size):
        start = number * TILE_WIDTH
        entries = list(ledger.entries(start, start + width))
        lines = b"".join(entry.canonical + b"\n" for entry in entries)
        yield f"entries/{tile_name(number, width)}", lines
        yield tile_path(0, number, width), b"".join(entry.leaf_hash for entry in entries)
    level = 1
    while size >> (TILE_LEVELS * level):
        above = TILE_LEVELS * level
        for number, width in _changed(old >> above, size >> above):
            first = number * TILE_WIDTH
            nodes = (ledger.tree.subtree(above, first + n) for n in range(width))
            yield tile_path(level, number, width), b"".join(nodes)
        level += 1


def outgrown(old: int, size: int) -> Iterator[str]:
    """Yield the folders of partial tiles in whose place a log of `size` entries has full ones.

    Of those alone that a log of `old`, or one with its last tile just filled, may have had.
    """
    level = 0
    while size >> (TILE_LEVELS * level):
        above = TILE_LEVELS * level
        for number in range(
            max(0, (old >> above) - 1) // TILE_WIDTH, (size >> above) // TILE_WIDTH
        ):
            name = tile_name(number, TILE_WIDTH)
            yield f"tile/{level}/{name}.p"
            if level == 0:
                yield f"entries/{name}.p"
        level += 1


def _changed(old: int, count: int) -> Iterator[tuple[int, int]]:
    """Yield number and width of a level's tiles that are others with `count` hashes than `old`."""
    for number in range(old // TILE_WIDTH, -(-count // TILE_WIDTH)):
        width = min(TILE_WIDTH, count - number * TILE_WIDTH)
        if number * TILE_WIDTH + width > old:
            yield number, width


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


def tile_path(level: int, number: int, width: int) -> str:
    """Return the name of the object that a tile of hashes is."""
    return f"tile/{level}/{tile_name(number, width)}"
