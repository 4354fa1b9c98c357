"""Reader of the device's health, and writer of its textfile."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fleetledger.device_agent.home.health.inferences import Inferences
from fleetledger.device_agent.home.health.machine import Machine
from fleetledger.device_agent.home.health.textfile import AgentNumbers, write_textfile
from fleetledger.device_agent.home.memory import resident_with_children
from fleetledger.runtime.errors import cut
from fleetledger.runtime.problems import CERTIFICATE, DatedProblem
from fleetledger.schemas.health import MAX_PROBLEMS, DeviceHealth, HealthProblem

log = logging.getLogger("device_agent")

_LONGEST_PROBLEM = 500


def hindered(
    problems: Sequence[DatedProblem], left_providers: Sequence[str], time_ns: int
) -> tuple[HealthProblem, ...]:
    """Return what keeps the agent from giving or getting, or will, of all its problems.

    Execution providers that were left are among it where nothing but the processor is left.
    """
    told = (
        HealthProblem(
            about=item.about,
            text=cut(item.text, _LONGEST_PROBLEM),
            seconds=max(0, time_ns - item.since_ns) // 10**9,
            hinders=item.hinders,
        )
        for item in problems
        if item.text and (item.hinders or item.about == CERTIFICATE)
    )
    left = (
        HealthProblem(about="provider", text=cut(reason, _LONGEST_PROBLEM))
        for reason in left_providers
        if reason
    )
    return (*told, *left)[:MAX_PROBLEMS]


@dataclass(frozen=True)
class HealthReader:
    """Reads how the device is, whose state lies in `folder`."""

    machine: Machine
    folder: Path

    def health(
        self, provider: str | None, inferences: Inferences, problems: Sequence[HealthProblem]
    ) -> DeviceHealth:
        """Return how the device is now; what cannot be known is left out."""
        return DeviceHealth(
            provider=provider,
            temperatures=self.machine.temperatures(),
            power_mode=self.machine.power_mode(),
            throttled=self.machine.throttled(),
            free_disk_bytes=self._free(),
            resident_bytes=resident_with_children(),
            memory_limit_bytes=self.machine.memory_limit(),
            inferences=inferences.count,
            inference_p95_seconds=inferences.p95_seconds,
            problems=tuple(problems),
        )

    def _free(self) -> int | None:
        try:
            return shutil.disk_usage(self.folder).free
        except OSError:
            return None


class TextfileWriter:
    """Writes the textfile every so many seconds; says once where it cannot, and goes on trying."""

    def __init__(self, path: Path, seconds: float) -> None:
        self._path = path
        self._seconds = seconds
        self._due = 0.0
        self._written = True

    def is_due(self, now: float) -> bool:
        """Whether it is time to write, in seconds of a clock that does not go back."""
        return now >= self._due

    def write(self, numbers: AgentNumbers, now: float) -> None:
        """Write what is told now."""
        self._due = now + self._seconds
        try:
            write_textfile(self._path, numbers)
        except OSError as error:
            if self._written:
                log.warning("%s: nothing for node_exporter from now on: %s", self._path, error)
            self._written = False
        else:
            if not self._written:
                log.warning("%s: written again", self._path)
            self._written = True
