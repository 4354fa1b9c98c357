"""Models that end the agent: what is on trial is written down before it can do harm.

- Before the agent itself tests a new model, the attempt is counted. The third one is not made: the
  two before ended the agent.
- With the switch probation begins, written before the link is moved. Every start of the agent
  during probation is counted, before the model is loaded; at the third the agent goes back to the
  former model instead.
- Probation ends when the agent has run long enough without dying. Starts after that never count, so
  a device may lose its power as often as it likes.

Counts lie beside the slots, and are replaced as these are: after a power cut the old or the new one
is there.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from pathlib import Path

from pydantic import Field, ValidationError

from fleetledger.device_agent.errors import ModelError
from fleetledger.device_agent.home.store.blobs import sync_folder, write_durably
from fleetledger.runtime.count_words import count_of
from fleetledger.runtime.strict import Strict
from fleetledger.schemas.values import Digest

log = logging.getLogger("device_agent.probation")

MAX_COUNT = 3
"""The attempt that is not made, and the start at which the agent goes back."""
MAX_COMPARISONS = 6
"""The comparison that is not begun: it takes minutes, and a loss of power counts, too."""
PROBATION_FILE, ATTEMPTS_FILE = "probation.json", "attempts.json"
COMPARISONS_FILE = "comparisons.json"


class Count(Strict):
    """How often something was begun with a model."""

    manifest: Digest
    count: int = Field(ge=0)


class CountFile:
    """A count on the disk, of one model at a time."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> Count | None:
        """Return the count; None where there is none, or none that can be read."""
        try:
            return Count.model_validate_json(self._path.read_bytes())
        except (OSError, ValidationError):
            return None

    def write(self, manifest: Digest, count: int) -> None:
        """Replace the count durably; raise `ModelError` when the disk refuses."""
        data = Count(manifest=manifest, count=count).model_dump_json().encode()
        try:
            write_durably(self._path, data)
        except OSError as error:
            raise ModelError(
                f"{self._path}: cannot be written: {error.strerror}; free some space"
            ) from error

    def clear(self) -> None:
        """Remove the count durably; a disk that refuses leaves it, which is told."""
        try:
            if self._path.exists():
                self._path.unlink()
                sync_folder(self._path.parent)
        except OSError as error:
            log.warning("%s: cannot be removed: %s", self._path, error.strerror)


class Attempts:
    """Counts how often something was begun with a model and not lived through."""

    def __init__(self, file: CountFile, most: int, did: str) -> None:
        """Refuse the attempt number `most`; `did` says what the agent did, as a verb."""
        self._file = file
        self._most = most
        self._did = did

    def begin(self, manifest: Digest) -> str:
        """Count an attempt, or return why it must not be made.

        Raises `ModelError` when the disk refuses.
        """
        known = self._file.read()
        count = known.count + 1 if known is not None and known.manifest == manifest else 1
        if count >= self._most:
            self.end()
            return (
                f"model: the agent ended {count_of(count - 1, 'time')} while it {self._did} this "
                "model; push another one"
            )
        self._file.write(manifest, count)
        return ""

    def end(self) -> None:
        """Forget the attempts: the agent has lived through one."""
        self._file.clear()


def comparisons_in(folder: Path) -> Attempts:
    """Return how often comparisons were begun, kept beside the slots."""
    return Attempts(CountFile(folder / COMPARISONS_FILE), MAX_COMPARISONS, "compared")


class Probation:
    """Counts attempts and starts in the folder of the slots; for one thread."""

    def __init__(
        self, folder: Path, seconds: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Probation lasts `seconds` of one run of the agent."""
        self._attempts = Attempts(CountFile(folder / ATTEMPTS_FILE), MAX_COUNT, "tested")
        self._starts = CountFile(folder / PROBATION_FILE)
        self._seconds = seconds
        self._clock = clock
        self._since: float | None = None
        """When the model in probation was switched to, or found, in this run."""

    def attempt(self, manifest: Digest) -> None:
        """Count that the agent itself is about to test a model.

        Raises `ModelError` when it must not, or the disk refuses.
        """
        refused = self._attempts.begin(manifest)
        if refused:
            raise ModelError(refused)

    def attempted(self) -> None:
        """Forget the attempts: the agent has lived through one."""
        self._attempts.end()

    def begin(self, manifest: Digest) -> None:
        """Begin the probation of a model that is about to become active; raise `ModelError`."""
        self._starts.write(manifest, 0)
        self._since = self._clock()

    def started(self, manifest: Digest) -> str | None:
        """Count a start of the agent with this model active; say why it has to go back, if so."""
        known = self._starts.read()
        if known is None or known.manifest != manifest:
            return None
        count = known.count + 1
        if count >= MAX_COUNT:
            return (
                f"probation: the agent was started {count} times since it switched to this model, "
                f"and never ran for {self._seconds:g} s"
            )
        try:
            self._starts.write(manifest, count)
        except ModelError as error:
            log.warning("a start in probation is not counted: %s", error)
        self._since = self._clock()
        return None

    def end(self) -> None:
        """Forget the starts: the model is trusted now, or gone."""
        self._since = None
        self._starts.clear()

    def lived(self) -> None:
        """End the probation if it has lasted long enough."""
        if self._since is not None and self._clock() - self._since >= self._seconds:
            self.end()
