"""What a crash leaves of the files below one folder.

The model is that of a disk that promises only what was asked of it:

- A file's bytes are durable after `fsync` on it. Until then a power cut may leave the old bytes,
  the new ones, or a part of them with zeros or rubbish for the rest.
- A name (of a file, a link or a folder) is durable after `fsync` on its folder. Until then a power
  cut may undo what was done to the names of that folder: the last of it, or all of it, for every
  folder by itself, as journalling file systems keep an order and no more.
- So a file that was renamed before its bytes were made durable may be torn under its new name.
- A killed program loses what it had not handed to the kernel, and nothing else. What was not
  durable then is still not durable, and a later power cut may take it.

Databases of SQLite are left alone, whoever made the file: it makes its own files durable, and a
transaction counts as atomic. Nor does a folder vanish that holds one.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

DATABASE = ".db"
"""Ends the name of a database of SQLite."""
_SECTOR = 512

Inode = tuple[int, int]


@dataclass(frozen=True)
class Change:
    """Something that was done to a name and is not durable yet."""

    folder: Path
    """Making this folder durable makes the change durable."""
    undo: Callable[[], None]


@dataclass
class DiskLosses:
    """What power cuts have taken from a volume."""

    torn_files: int = 0
    lost_names: int = 0


class Volume:
    """The files below `root`; `shadow` is a folder on the same disk, outside of it."""

    def __init__(self, root: Path, shadow: Path, random: Random) -> None:
        self.root = root
        self.losses = DiskLosses()
        self._shadow = shadow
        self._random = random
        self._changes: list[Change] = []
        self._durable: dict[Inode, bytes] = {}
        """Durable bytes of files that were written; a file that is not here is durable as it is."""
        self._copies = 0
        shadow.mkdir(parents=True, exist_ok=True)

    def will_write(self, path: Path) -> None:
        """Remember what is durable of a file that is about to be opened for writing."""
        if path.is_file() and path.suffix != DATABASE:
            self._durable.setdefault(inode_of(path), path.read_bytes())

    def created(self, path: Path) -> None:
        """Take in that a name is new: of a file, empty so far, a link or a folder."""
        if path.suffix == DATABASE:
            return  # made with its permissions before SQLite opens it
        if path.is_file() and not path.is_symlink():
            self._durable[inode_of(path)] = b""
        self.named(path)

    def named(self, path: Path) -> None:
        """Take in that a file has another name, or that something is new that is no file."""
        self._changes.append(Change(path.parent, lambda: _remove(path)))

    def synced_file(self, descriptor: int) -> None:
        """Take in that the bytes of an open file are durable."""
        status = os.fstat(descriptor)
        inode = (status.st_dev, status.st_ino)
        if inode in self._durable:
            self._durable[inode] = Path(f"/proc/self/fd/{descriptor}").read_bytes()

    def synced_folder(self, folder: Path) -> None:
        """Take in that the names in a folder are durable."""
        self._changes = [change for change in self._changes if change.folder != folder]

    def keep(self, path: Path) -> Path | None:
        """Keep what a name stands for, because it is about to lose it; None if there is nothing."""
        if not os.path.lexists(path):
            return None
        self._copies += 1
        kept = self._shadow / str(self._copies)
        if path.is_symlink():
            kept.symlink_to(path.readlink())
        else:
            os.link(path, kept)
        return kept

    def removed(self, path: Path, kept: Path) -> None:
        """Take in that a name is gone."""
        self._changes.append(Change(path.parent, lambda: _restore(kept, path)))

    def removed_folder(self, path: Path) -> None:
        """Take in that the name of an empty folder is gone."""
        self._changes.append(Change(path.parent, lambda: path.mkdir(parents=True, exist_ok=True)))

    def moved(self, source: Path, target: Path, kept: Path | None) -> None:
        """Take in that `source` is now called `target`, which stood for `kept` before."""

        def undo() -> None:
            if os.path.lexists(target):
                target.replace(source)
            if kept is not None:
                _restore(kept, target)

        self._changes.append(Change(target.parent, undo))

    def power_cut(self) -> None:
        """Leave what a power cut leaves; all of that is durable then."""
        for path in self._regular_files():
            self._tear(path)
        lost = self._lost()
        for change in reversed(lost):
            change.undo()
        self.losses.lost_names += len(lost)
        self._changes, self._durable = [], {}
        shutil.rmtree(self._shadow)
        self._shadow.mkdir()

    def _regular_files(self) -> Iterator[Path]:
        for top in (self.root, self._shadow):
            for parent, _, names in os.walk(top):
                paths = (Path(parent, name) for name in names)
                yield from (path for path in paths if path.is_file() and not path.is_symlink())

    def _tear(self, path: Path) -> None:
        durable = self._durable.pop(inode_of(path), None)
        if durable is None:
            return
        written = path.read_bytes()
        if written != durable:
            # Into the same inode, which other names may stand for.
            path.write_bytes(torn(durable, written, self._random))
            self.losses.torn_files += 1

    def _lost(self) -> list[Change]:
        """Return the changes that the power cut takes, in the order in which they were made."""
        numbers: dict[Path, int] = {}
        for change in self._changes:
            numbers[change.folder] = numbers.get(change.folder, 0) + 1
        kept = {folder: self._random.randint(0, number) for folder, number in numbers.items()}
        lost = []
        for change in self._changes:
            kept[change.folder] -= 1
            if kept[change.folder] < 0:
                lost.append(change)
        return lost


def torn(durable: bytes, written: bytes, random: Random) -> bytes:
    """Return what a power cut leaves of a file that held `durable` and was given `written`."""
    fate = random.choice(("nothing", "all", "cut", "zeros", "rubbish", "sectors"))
    cut = random.randint(0, len(written))
    if fate == "nothing":
        return durable
    if fate == "all":
        return written
    if fate == "cut":
        return written[:cut]
    if fate == "zeros":
        return written[:cut] + bytes(len(written) - cut)
    if fate == "rubbish":
        return written[:cut] + random.randbytes(len(written) - cut)
    return b"".join(
        (written if random.random() < 0.5 else durable)[start : start + _SECTOR]
        for start in range(0, len(written), _SECTOR)
    )


def inode_of(path: Path) -> Inode:
    """Return what tells a file from every other, whatever its name."""
    status = path.stat()
    return status.st_dev, status.st_ino


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        if not any(path.rglob(f"*{DATABASE}")):
            shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _restore(kept: Path, path: Path) -> None:
    # The folder itself may be lost by now.
    if path.parent.is_dir():
        kept.replace(path)
