"""Crash points before and after every effect on files, and the model of what a crash leaves.

`Disk` is a context manager. While it is entered, what is done to files below the roots of its
drives through `pathlib` and `os` is a crash point before and after: `Drive.point` is called with
the effect's name, and may raise. Everything else passes through unchanged. It is meant for programs
that share one thread and change their files in the ways that `EFFECTS` lists; a test holds the
rooms to these.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any
from unittest.mock import patch

from typing_extensions import Self

from tests.chaos.volume import Inode, Volume, inode_of

Point = Callable[[str], None]
"""Called with the name of an effect, before and after it; raises to crash there."""

_WRITING = frozenset("wxa+")


@dataclass
class Drive:
    """One program's volume, its crash points, and the files that it holds open."""

    volume: Volume
    point: Point
    files: list[IO[Any]] = field(default_factory=list)
    descriptors: list[tuple[int, Inode]] = field(default_factory=list)

    def killed(self) -> None:
        """Let go of the dead program's files; what it had not handed to the kernel is lost."""
        with Path(os.devnull).open("wb") as nowhere:
            for file in self.files:
                if not file.closed:
                    os.dup2(nowhere.fileno(), file.fileno())
                    file.close()
            for descriptor, inode in self.descriptors:
                with suppress(OSError):
                    status = os.fstat(descriptor)
                    if (status.st_dev, status.st_ino) == inode:
                        # Not closed: its number may be a database's by now, which closes it itself.
                        os.dup2(nowhere.fileno(), descriptor)
        self.files, self.descriptors = [], []


class Written:
    """A file open for writing, whose writes are crash points: one may end in the middle."""

    def __init__(self, file: IO[Any], drive: Drive) -> None:
        self._file = file
        self._drive = drive

    def write(self, data: Any) -> int:
        """Write in two halves, with a crash point before, between and after."""
        self._drive.point("write")
        half = len(data) // 2
        done = self._file.write(data[:half])
        # Handed over to the kernel, so that a program killed here leaves the half.
        self._file.flush()
        self._drive.point("write")
        done += self._file.write(data[half:])
        self._drive.point("write")
        return done

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()


class Disk:
    """Intercepts what is done to the files of `drives` while it is entered."""

    def __init__(self, drives: Sequence[Drive]) -> None:
        self._drives = {f"{drive.volume.root}{os.sep}": drive for drive in drives}
        self._passing = False
        """Whether effects pass through: they are part of one that was intercepted."""
        self._patches = ExitStack()

    def __enter__(self) -> Self:
        for owner, name, effect in EFFECTS:
            self._intercept(owner, name, effect)
        return self

    def __exit__(self, *_: object) -> None:
        self._patches.close()

    def crash(self, drive: Drive, *, power_cut: bool) -> None:
        """End the program of `drive`: it is killed, or the power of its machine is cut."""
        with self._passed():
            drive.killed()
            if power_cut:
                drive.volume.power_cut()

    def _intercept(self, owner: Any, name: str, effect: Callable[..., Any]) -> None:
        original = getattr(owner, name)

        def intercepted(subject: Any, *arguments: Any, **options: Any) -> Any:
            drive = None if self._passing else self._drive(subject)
            if drive is None:
                return original(subject, *arguments, **options)
            with self._passed():
                return effect(drive, original, subject, *arguments, **options)

        self._patches.enter_context(patch.object(owner, name, intercepted))

    @contextmanager
    def _passed(self) -> Iterator[None]:
        self._passing = True
        try:
            yield
        finally:
            self._passing = False

    def _drive(self, subject: Any) -> Drive | None:
        path = _path_of(subject) if isinstance(subject, int) else subject
        # Texts are compared, because every file that anybody opens passes here.
        inside = f"{os.fspath(path)}{os.sep}"
        return next((d for root, d in self._drives.items() if inside.startswith(root)), None)


def _open_path(
    drive: Drive,
    original: Callable[..., IO[Any]],
    path: Path,
    mode: str = "r",
    *more: object,
    **options: object,
) -> Any:
    if not _WRITING & set(mode):
        return original(path, mode, *more, **options)
    with _opened(drive, path):
        file = original(path, mode, *more, **options)
        drive.files = [*(open_file for open_file in drive.files if not open_file.closed), file]
    return Written(file, drive)


def _open_descriptor(
    drive: Drive,
    original: Callable[..., int],
    path: Path,
    flags: int,
    *more: object,
    **options: object,
) -> int:
    if not flags & (os.O_WRONLY | os.O_RDWR):
        return original(path, flags, *more, **options)
    with _opened(drive, Path(path)):
        descriptor = original(path, flags, *more, **options)
        drive.descriptors.append((descriptor, inode_of(Path(path))))
    return descriptor


@contextmanager
def _opened(drive: Drive, path: Path) -> Iterator[None]:
    drive.point("open")
    existed = path.exists()
    drive.volume.will_write(path)
    yield
    if not existed:
        drive.volume.created(path)
    drive.point("open")


def _fsync(drive: Drive, original: Callable[[int], None], descriptor: int) -> None:
    drive.point("fsync")
    path = _path_of(descriptor)
    original(descriptor)
    if path.is_dir():
        drive.volume.synced_folder(path)
    else:
        drive.volume.synced_file(descriptor)
    drive.point("fsync")


def _replace(drive: Drive, original: Callable[..., Path], source: Path, target: Path) -> Path:
    drive.point("replace")
    kept = drive.volume.keep(Path(target))
    moved = original(source, target)
    drive.volume.moved(source, Path(target), kept)
    drive.point("replace")
    return moved


def _unlink(
    drive: Drive, original: Callable[..., None], path: Path, missing_ok: bool = False
) -> None:
    drive.point("unlink")
    kept = drive.volume.keep(path)
    original(path, missing_ok)
    if kept is not None:
        drive.volume.removed(path, kept)
    drive.point("unlink")


def _symlink(
    drive: Drive, original: Callable[..., None], path: Path, *arguments: object, **options: object
) -> None:
    drive.point("symlink")
    original(path, *arguments, **options)
    drive.volume.created(path)
    drive.point("symlink")


def _hardlink(
    drive: Drive, original: Callable[..., None], path: Path, *arguments: object, **options: object
) -> None:
    drive.point("link")
    original(path, *arguments, **options)
    drive.volume.named(path)
    drive.point("link")


def _rmdir(drive: Drive, original: Callable[..., None], path: Path) -> None:
    drive.point("rmdir")
    original(path)
    drive.volume.removed_folder(path)
    drive.point("rmdir")


def _mkdir(
    drive: Drive, original: Callable[..., None], path: Path, *arguments: object, **options: object
) -> None:
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    if not missing:
        original(path, *arguments, **options)
        return
    drive.point("mkdir")
    original(path, *arguments, **options)
    for folder in reversed(missing):
        drive.volume.created(folder)
    drive.point("mkdir")


def _path_of(descriptor: int) -> Path:
    return Path(f"/proc/self/fd/{descriptor}").readlink()


EFFECTS: tuple[tuple[Any, str, Callable[..., Any]], ...] = (
    (Path, "open", _open_path),
    (Path, "replace", _replace),
    (Path, "unlink", _unlink),
    (Path, "symlink_to", _symlink),
    (Path, "hardlink_to", _hardlink),
    (Path, "mkdir", _mkdir),
    (Path, "rmdir", _rmdir),
    (os, "open", _open_descriptor),
    (os, "fsync", _fsync),
)
"""Owner and name of what is intercepted, and what is done instead."""
