"""The data folder: `<folder>/<class name>/…/<image>`.

It is watched by looking: a scan every few seconds compares path, size and time of change. That
works on every file system (network shares, FUSE, containers' bind mounts), where notifications of
the kernel do not, needs no further library, and cannot miss what happened while the agent was off.

- A class is a folder directly in the data folder; images may lie deeper in it.
- A sample is a file whose name ends as those of its kind do; other files are left alone.
- Names that begin with a dot are left alone, and folders of systems (`@eaDir`, `$RECYCLE.BIN`).
- A file of arrays may hold many samples (`device_agent.samples.array_files`).
- Files that are not read (`SampleKind.unread`) are a problem that is told.
- A file that changed within the last second is perhaps still being written; it waits.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from pathlib import Path

from fleetledger.device_agent.core.inputs import Image, Scanned
from fleetledger.device_agent.core.notices import problem
from fleetledger.device_agent.core.records import ImageToCount
from fleetledger.device_agent.errors import SourceError
from fleetledger.device_agent.home.store.blobs import file_digest
from fleetledger.device_agent.kinds import MAX_FILE_BYTES, PICTURES, SampleKind, kind_of
from fleetledger.device_agent.samples.array_files import file_of, samples_of
from fleetledger.device_agent.samples.images import PictureFile
from fleetledger.device_agent.samples.sources.array_samples import ArraySamples
from fleetledger.device_agent.samples.sources.cache import DigestCache, HashedFile
from fleetledger.learning.errors import ArrayError
from fleetledger.runtime.errors import InvalidValueError, shorten
from fleetledger.runtime.progress import working_at
from fleetledger.runtime.regular_files import regular_status
from fleetledger.schemas.models import AnyPreprocessing
from fleetledger.schemas.reports import Problem
from fleetledger.schemas.values import ClassName, Digest

_SYSTEM_FOLDERS = frozenset(
    (
        *("#recycle", "#snapshot", "$recycle.bin", "@eadir", "@recycle", "@recycle.bin", "@tmp"),
        *("@recently-snapshot", "@__thumb", "__macosx", "found.000", "lost+found", "recycler"),
        *("system volume information", "network trash folder", "temporary items", "$winreagent"),
    )
)
"""Folders of systems and of storage boxes, in small letters: no classes, and no pictures of any."""
SETTLE_SECONDS = 1.0


@dataclass
class Findings:
    """Images, problems and files of a scan so far."""

    folder: Path
    cache: DigestCache
    now: float
    images: list[Image] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    seen: dict[str, HashedFile] = field(default_factory=dict)
    unsettled: int = 0

    def at_rest(self, about: str, *paths: str) -> tuple[HashedFile, ...]:
        """Return the files of one sample as they are; nothing while one is not to be used."""
        found: list[HashedFile | None] = []
        for path in paths:
            try:
                found.append(_seen_at_rest(self.folder, path, self.cache, self.now))
            except FileNotFoundError:
                return ()  # removed between listing and looking; the next scan is right again
            except OSError as error:
                text = (
                    f"{path}: cannot be read: {error.strerror}; mend its permissions or remove it"
                )
                self.problems.append(problem(about, text))
                return ()
        whole = tuple(file for file in found if file is not None)
        if len(whole) < len(paths):
            self.unsettled += 1
            return ()
        self.seen |= dict(zip(paths, whole, strict=True))
        return whole

    def scanned(self) -> Scanned:
        """Return what was found, sorted by path."""
        images = tuple(sorted(self.images, key=lambda image: image.path))
        return Scanned(images, tuple(self.problems), self.unsettled)


class FolderSource:
    """Scans a data folder; for one thread."""

    def __init__(
        self,
        folder: Path,
        cache: DigestCache,
        clock: Callable[[], float] = time.time,
        kind: SampleKind = PICTURES,
        arrays: ArraySamples | None = None,
    ) -> None:
        """`arrays` is given for a kind of which a file may hold many samples."""
        self._folder = folder
        self._cache = cache
        self._clock = clock
        self._kind = kind
        self._arrays = arrays

    def scan(self) -> Scanned:
        """Return all images at rest, sorted by path, and what the owner should mend.

        Raises `SourceError` if the folder itself cannot be read, so that a disk that is not mounted
        is never taken for an empty one.
        """
        found = Findings(self._folder, self._cache, self._clock())
        for name in _class_folders(self._folder):
            self._scan_class(name, found)
        self._cache.update(found.seen)
        if self._arrays is not None:
            self._arrays.end_scan()
        return found.scanned()

    def rescan(self, paths: Iterable[str]) -> None:
        """Read files again that could not be read since, or held other bytes than were found."""
        self._cache.forget(paths if self._arrays is None else map(file_of, paths))

    def _scan_class(self, name: str, found: Findings) -> None:
        try:
            class_name = ClassName(_as_text(name))
        except InvalidValueError as error:
            text = (
                f"{shorten(name)}: not usable as a class name; {error.way_out}: rename the folder"
            )
            found.problems.append(problem("class folder", text))
            return
        before = len(found.images) + len(found.problems) + found.unsettled
        for path in sample_files(self._folder, name, self._kind, found.problems):
            for seen in found.at_rest("sample", path):
                for sample, digest in self._samples_in(path, seen.digest, found):
                    found.images.append(Image(sample, digest, class_name))
        if len(found.images) + len(found.problems) + found.unsettled == before:
            text = (
                f"{name}: this class folder has no files to learn from; put some in "
                f"({', '.join(sorted(self._kind.suffixes))}), or remove it"
            )
            found.problems.append(problem("class folder", text))

    def _samples_in(self, path: str, digest: Digest, found: Findings) -> list[tuple[str, Digest]]:
        """Return path and digest of each sample in a file; an unreadable one is a problem."""
        if self._arrays is None:
            return [(path, digest)]
        try:
            return self._arrays.of_file(self._folder / path, digest).named(path)
        except (ArrayError, OSError) as error:
            found.problems.append(problem("sample", f"{path}: {error}"))
            return []


def _class_folders(folder: Path) -> list[str]:
    working_at(folder)
    try:
        with os.scandir(folder) as entries:
            return sorted(
                entry.name
                for entry in entries
                if not is_left_alone(entry.name) and _leads_to_a_folder(entry)
            )
    except OSError as error:
        raise SourceError(
            f"data.folder: {folder}: cannot be read: {error.strerror}; mount it, make it, or mend "
            "`[data] folder` in agent.toml"
        ) from error


def is_left_alone(name: str) -> bool:
    """Return whether a folder is hidden, or one of a system."""
    return name.startswith(".") or name.lower() in _SYSTEM_FOLDERS


def _leads_to_a_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False  # a link to itself, which is no class and hides none


def _seen_at_rest(folder: Path, path: str, cache: DigestCache, now: float) -> HashedFile | None:
    """Return a file as it is, None while it is perhaps still being written; raise `OSError`."""
    full = folder / path
    working_at(full)
    status = regular_status(full)
    if abs(now - status.st_mtime) < SETTLE_SECONDS:
        return None
    if status.st_size > MAX_FILE_BYTES:
        raise OSError(errno.EFBIG, f"{status.st_size} bytes exceed {MAX_FILE_BYTES}", path)
    digest = cache.get(path, status.st_size, status.st_mtime_ns)
    return HashedFile(status.st_size, status.st_mtime_ns, digest or file_digest(full))


def sample_files(
    folder: Path, class_folder: str, kind: SampleKind, problems: list[Problem]
) -> Iterator[str]:
    """Yield samples below a class folder as paths relative to the data folder.

    Folders that cannot be read and names that are not UTF-8 become problems.
    """

    def report(error: OSError) -> None:
        text = f"{class_folder}: cannot be read: {error.strerror}; mend the folder's permissions"
        problems.append(problem("class folder", text))

    working_at(folder / class_folder)
    named, unread = kind.suffixes | kind.unread, dict[str, list[str]]()
    for parent, folders, files in os.walk(folder / class_folder, onerror=report):
        folders[:] = sorted(name for name in folders if not is_left_alone(name))
        for name in sorted(files):
            if not is_sample(Path(name), named):
                continue
            path = str(Path(parent, name).relative_to(folder))
            if (ending := Path(name).suffix.lower()) in kind.unread:
                unread.setdefault(ending, []).append(path)
                continue
            try:
                yield _as_text(path)
            except InvalidValueError as error:
                problems.append(problem("sample", f"{shorten(path)}: {error.way_out}"))

    for ending, found in sorted(unread.items()):
        many, them = (f"{len(found)} files", "them") if len(found) > 1 else ("1 file", "it")
        text = (
            f"{class_folder}: {many} of the kind {ending} ({shorten(found[0])}) cannot be read; "
            f"convert {them} to {kind.convert}, or remove {them}"
        )
        problems.append(problem("sample", text))


def files_below(folder: Path, suffixes: AbstractSet[str]) -> list[Path]:
    """Return the files of samples that lie in a folder, sorted; none where there is no folder."""
    found = (Path(parent, name) for parent, _, files in os.walk(folder) for name in files)
    return sorted(path for path in found if is_sample(path, suffixes))


def samples_below(folder: Path, preprocessing: AnyPreprocessing) -> list[Path]:
    """Return the samples of a model that lie in a folder, or in one file, sorted by file."""
    kind = kind_of(preprocessing)
    files = files_below(folder, kind.suffixes)
    if not folder.is_dir() and is_sample(folder, kind.suffixes):
        files = [folder]
    if not kind.many:
        return files
    return [sample for file in files for sample in samples_of(file, preprocessing.shape)]


def is_sample(path: Path, suffixes: AbstractSet[str]) -> bool:
    """Return whether a file's name is that of a sample."""
    return not path.name.startswith(".") and path.suffix.lower() in suffixes


def picture_files(images: Sequence[ImageToCount], folder: Path) -> list[PictureFile]:
    """Return the files of images that a scan found."""
    return [PictureFile(folder / image.path, image.digest) for image in images]


def _as_text(name: str) -> str:
    """Refuse names that are not UTF-8; they could be told to nobody."""
    try:
        name.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InvalidValueError("file name", name, "rename it to valid UTF-8") from error
    return name
