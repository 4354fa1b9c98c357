"""The inbox as a folder: an image and beside it what was said of it.

    DIGEST.jpg, DIGEST.png   the image; PNG where it is small
    DIGEST.json              a `DoubtedImage`, written after the image: with it the image is there
    lock                     held by whoever changes something

Any number of processes may offer and take images at once. Files are written beside their place and
renamed, so a reader sees whole ones; what a crash has left goes with the next change.
"""

from __future__ import annotations

import errno
import fcntl
import io
import os
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from PIL import Image
from pydantic import ValidationError

from fleetledger.device_agent.errors import StoreError
from fleetledger.device_agent.home.home import AgentHome
from fleetledger.device_agent.kinds import MAX_FILE_BYTES
from fleetledger.device_agent.models.inbox.rules import (
    USUAL_DOUBT,
    DoubtedImage,
    Offer,
    is_alike,
    making_room,
    outdated,
    outline_of,
    too_soon,
)
from fleetledger.device_agent.models.inference.frames import Frame, picture_of
from fleetledger.device_agent.settings import InboxSettings
from fleetledger.schemas.values import Digest

_SMALL_PIXELS = 256 * 256
_JPEG_QUALITY = 95
_LOCK = "lock"
_TURN_SECONDS = 5.0
"""For so long another process may hold the folder, which takes it milliseconds."""
_POLL_SECONDS = 0.01


class DoubtInbox:
    """Doubted images in one folder; every method raises `StoreError` when the disk refuses."""

    def __init__(
        self, folder: Path, limits: InboxSettings, clock: Callable[[], float] = time.time
    ) -> None:
        self.folder = folder
        self._limits = limits
        self._clock = clock
        self._read: tuple[int, tuple[DoubtedImage, ...]] = (-1, ())

    def offer(self, image: Frame, doubt: float, guess: str, version: int) -> Offer:
        """Keep an image if the rules let it in; return what became of it.

        Of most images it looks at `doubt` alone. Raises `ImageError` for an image that is none.
        """
        if not doubt >= (self._limits.doubt or USUAL_DOUBT):
            return "sure"
        if too_soon(self.waiting(), self._clock(), self._limits):
            return "soon"
        picture = picture_of(image)
        data, suffix = _encoded(picture)
        with self._alone():
            # The time is read again: another process may have held the folder.
            new = DoubtedImage.model_validate(
                {
                    "digest": Digest.of(data),
                    "suffix": suffix,
                    "size": len(data),
                    "doubt": doubt,
                    "guess": guess,
                    "version": version,
                    "time": self._clock(),
                    "outline": outline_of(picture),
                }
            )
            return self._let_in(new, data)

    def waiting(self) -> tuple[DoubtedImage, ...]:
        """Return what waits, the newest first; an image that is being taken away may be missing."""
        try:
            changed = self.folder.stat().st_mtime_ns
            if self._read[0] != changed:
                found = (_read(path) for path in self.folder.glob("*.json"))
                images = sorted(filter(None, found), key=lambda image: -image.time)
                self._read = (changed, tuple(images))
        except FileNotFoundError:
            return ()
        except OSError as error:
            raise _refused(self.folder, error) from error
        return self._read[1]

    def read(self, digest: Digest) -> tuple[DoubtedImage, bytes] | None:
        """Return an image that waits, and its file's content; None where it is not there any more.

        A file that holds other bytes than its name says is not there either.
        """
        found = next((image for image in self.waiting() if image.digest == digest), None)
        data = None if found is None else _content(self.folder / found.file_name)
        if found is None or data is None or Digest.of(data) != digest:
            return None
        return found, data

    def take(self, digest: Digest, place: Callable[[DoubtedImage, bytes], None]) -> bool:
        """Have `place` put an image elsewhere, then take it away; return whether it was there.

        What `place` raises leaves the image here; a crash may leave it here and there.
        """
        with self._alone():
            self._read = (-1, ())
            found = self.read(digest)
            if found is not None:
                place(*found)
                self._remove(found[0])
                self._read = (-1, ())
        return found is not None

    def put_back(self, image: DoubtedImage, data: bytes) -> None:
        """Have an image wait again that was taken."""
        with self._alone():
            self._keep(image, data)

    def _keep(self, image: DoubtedImage, data: bytes) -> None:
        _write(self.folder / image.file_name, data)
        _write(self.folder / f"{image.digest}.json", image.model_dump_json().encode())
        self._read = (-1, ())

    def _let_in(self, new: DoubtedImage, data: bytes) -> Offer:
        # Another process may have changed the folder within one tick of its time stamp.
        self._read = (-1, ())
        waiting = self.waiting()
        if too_soon(waiting, new.time, self._limits):
            return "soon"
        old = outdated(waiting, new.time, self._limits)
        stays = [image for image in waiting if image not in old]
        alike = is_alike(stays, new.outline)
        going = () if alike else making_room(stays, new, self._limits)
        for image in (*old, *(going or ())):
            self._remove(image)
        if alike or going is None:
            return "alike" if alike else "full"
        self._clean({image.digest for image in stays})
        self._keep(new, data)
        return "kept"

    def _remove(self, image: DoubtedImage) -> None:
        """Take an image away; first what says that it is there."""
        for name in (f"{image.digest}.json", image.file_name):
            (self.folder / name).unlink(missing_ok=True)

    def _clean(self, keep: set[Digest]) -> None:
        """Remove what a crash has left."""
        for path in self.folder.iterdir():
            if path.name != _LOCK and (path.stem not in keep or path.suffix == ".new"):
                path.unlink(missing_ok=True)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            handle = os.open(self.folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                self._take_turn(handle)
                yield
            finally:
                os.close(handle)
        except OSError as error:
            raise _refused(self.folder, error) from error

    def _take_turn(self, handle: int) -> None:
        """Lock the folder; raise `StoreError` with the process that holds it for too long."""
        began = time.monotonic()
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() - began > _TURN_SECONDS:
                    holder = os.pread(handle, 20, 0).decode("ascii", "replace").strip() or "another"
                    raise StoreError(
                        f"{self.folder}: process {holder} has held the doubted images for more "
                        f"than {_TURN_SECONDS:g} s, stopped or hanging; have it go on, or end it"
                    ) from None
                time.sleep(_POLL_SECONDS)
            else:
                os.pwrite(handle, f"{os.getpid():<20}".encode(), 0)
                return


def _encoded(picture: Image.Image) -> tuple[bytes, str]:
    file = io.BytesIO()
    if picture.width * picture.height <= _SMALL_PIXELS:
        picture.save(file, "PNG")
        return file.getvalue(), ".png"
    picture.save(file, "JPEG", quality=_JPEG_QUALITY)
    return file.getvalue(), ".jpg"


def _read(path: Path) -> DoubtedImage | None:
    """Return what a file says; None where it went meanwhile, or says nothing of use."""
    try:
        image = DoubtedImage.model_validate_json(path.read_bytes())
    except (FileNotFoundError, ValidationError):
        return None
    return image if image.digest == path.stem else None


def _content(path: Path) -> bytes | None:
    """Return what a file holds; None where it went, is no plain file, or is too large."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno == errno.ELOOP:
            return None
        raise
    with os.fdopen(handle, "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_FILE_BYTES:
            return None
        return file.read(MAX_FILE_BYTES)


def _write(path: Path, data: bytes) -> None:
    beside = path.with_name(f"{path.name}.new")
    handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(data)
    beside.replace(path)


def _refused(folder: Path, error: OSError) -> StoreError:
    return StoreError(
        f"{folder}: doubted images cannot be kept: {error.strerror}; free some space, or mend the "
        "folder's permissions"
    )


def inbox_of(home: AgentHome) -> DoubtInbox | None:
    """Return a home's inbox as its settings say; None where they keep nothing."""
    inbox, detection = home.settings.inbox, home.settings.detection
    if inbox.doubt is None:
        doubt = detection.rise_nats if detection.mode == "fixed-rise" else USUAL_DOUBT
        inbox = inbox.model_copy(update={"doubt": doubt})
    return DoubtInbox(home.inbox_folder, inbox) if inbox.keep else None
