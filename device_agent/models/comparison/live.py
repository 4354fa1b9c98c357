"""A sample of what applications show to the model, for comparing a candidate beside it.

    NANOSECONDS   an image as the application sent it, named after when that was

The newest are kept: at most so many, of so many bytes, for so long. Nothing of them leaves the
device but the counts of a comparison.
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from fleetledger.device_agent.errors import StoreError
from fleetledger.device_agent.home.home import AgentHome


@dataclass(frozen=True)
class LiveLimits:
    """What a sample may hold, and how often something enters it."""

    images: int
    interval_seconds: float
    """On average; how long it is each time is drawn, so that no rhythm of a scene is followed."""
    bytes: int = 64 << 20
    age_seconds: float = 7 * 86_400


class LiveSample:
    """The sample in its folder; any thread may offer."""

    def __init__(
        self, folder: Path, limits: LiveLimits, clock: Callable[[], float] = time.time
    ) -> None:
        self.folder = folder
        self._limits = limits
        self._clock = clock
        self._next = clock()
        self._lock = threading.Lock()

    def offer(self, frame: bytes) -> bool:
        """Keep a frame if it is time for one; return whether it was.

        Raises `StoreError` if the disk refuses; the next one is tried when it is time again.
        """
        with self._lock:
            return self._is_time() and self._keep(frame)

    def images(self) -> list[Path]:
        """Return what is kept and not too old, the newest first."""
        oldest = self._clock() - self._limits.age_seconds
        return [path for path in _newest_first(self.folder) if _taken(path) >= oldest]

    def _is_time(self) -> bool:
        """Whether a frame is due, also where the clock went back; if so, draw the next time."""
        now, interval = self._clock(), self._limits.interval_seconds
        if 0 < self._next - now <= 2 * interval:
            return False
        self._next = now + interval * random.uniform(0.5, 1.5)  # noqa: S311
        return True

    def _keep(self, frame: bytes) -> bool:
        now = self._clock()
        if len(frame) > self._limits.bytes:
            return False
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._make_room(now, len(frame))
            _write(self.folder / str(int(now * 1e9)), frame)
        except OSError as error:
            raise StoreError(
                f"{self.folder}: a live image cannot be kept: {error.strerror}; free some space, "
                "or mend the folder's permissions"
            ) from error
        return True

    def _make_room(self, now: float, coming: int) -> None:
        """Remove what is too old, what a crash has left, and the oldest beyond the limits."""
        for path in self.folder.glob("*.new"):
            path.unlink(missing_ok=True)
        total = coming
        for place, path in enumerate(_newest_first(self.folder), start=1):
            total += path.stat().st_size
            young = 0 <= now - _taken(path) <= self._limits.age_seconds
            if place >= self._limits.images or total > self._limits.bytes or not young:
                path.unlink(missing_ok=True)


def live_sample_of(home: AgentHome) -> LiveSample | None:
    """Return a home's sample; None where its settings keep nothing."""
    model = home.settings.model
    if not model.compare_live:
        return None
    limits = LiveLimits(model.compare_live, model.compare_live_seconds)
    return LiveSample(home.live_folder, limits)


def _newest_first(folder: Path) -> list[Path]:
    found = folder.iterdir() if folder.is_dir() else ()
    return sorted((path for path in found if path.name.isdecimal()), key=_taken, reverse=True)


def _taken(path: Path) -> float:
    """Seconds since 1970 at which an image came."""
    return int(path.name) / 1e9


def _write(path: Path, data: bytes) -> None:
    beside = path.with_name(f"{path.name}.new")
    handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(data)
    beside.replace(path)
