"""What Linux says of the machine: heat, throttling, power mode, memory, disk.

Files are asked rather than tools, since they are there without rights and cost microseconds. What
is not there is left out. Of a Jetson these are as NVIDIA's developer guide has them: `nvpmodel`
keeps its mode in a file, and the over-current counters lie under hwmon.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from fleetledger.runtime.count_words import count_of
from fleetledger.schemas.health import MAX_ZONES, ThermalZone

_LONGEST_NAME = 60
_COLDEST, _HOTTEST = -100.0, 300.0
"""Degrees Celsius; zones that are switched off say less."""
_NO_LIMIT = 1 << 60
"""Bytes from which a limit of cgroup v1 is none."""
_ASK_SECONDS = 2.0
_ZONE = re.compile(r"thermal_zone(\d+)")
_MODE = re.compile(r"POWER_MODEL\s+ID=(\d+)\s+NAME=(\S+)")


def ask_nvpmodel() -> str:
    """Return what `nvpmodel -q` prints; nothing where it is not installed, or does not answer."""
    program = shutil.which("nvpmodel")
    if program is None:
        return ""
    try:
        asked = subprocess.run(  # noqa: S603 - a program of the system, without anybody's words
            [program, "-q"], capture_output=True, text=True, timeout=_ASK_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return asked.stdout


@dataclass(frozen=True)
class Conditions:
    """How the machine was when a time was taken: the same model takes longer when it is hot."""

    power_mode: str | None = None
    celsius: float | None = None
    """Of the hottest thermal zone."""
    throttled: int | None = None
    """How often it had slowed itself down since it was switched on."""

    def since(self, before: Conditions) -> Conditions:
        """Return what holds for the time since `before`: the hottest, and throttling meanwhile."""
        heat = [value for value in (before.celsius, self.celsius) if value is not None]
        slowed = None
        if self.throttled is not None and before.throttled is not None:
            slowed = max(0, self.throttled - before.throttled)
        return Conditions(self.power_mode, max(heat, default=None), slowed)

    @property
    def described(self) -> str:
        """The same in words; empty where nothing is known."""
        said = (
            self.power_mode and f"power mode {self.power_mode}",
            None if self.celsius is None else f"{self.celsius:.0f} °C",
            self.throttled and f"slowed down {count_of(self.throttled, 'time')}",
        )
        return ", ".join(text for text in said if text)


@dataclass(frozen=True)
class Machine:
    """The machine whose files lie under `root`."""

    root: Path = Path("/")
    ask_power_mode: Callable[[], str] = ask_nvpmodel

    def temperatures(self) -> tuple[ThermalZone, ...]:
        """Return the thermal zones that have a temperature, in the kernel's order."""
        found: list[ThermalZone] = []
        names: dict[str, int] = {}
        for zone in sorted(self._glob("sys/class/thermal/thermal_zone*"), key=_number):
            millidegrees = _integer(zone / "temp")
            if millidegrees is None or not _COLDEST <= millidegrees / 1000 <= _HOTTEST:
                continue
            name = (_text(zone / "type") or zone.name)[: _LONGEST_NAME - 4]
            names[name] = names.get(name, 0) + 1
            told = name if names[name] == 1 else f"{name}-{names[name]}"
            found.append(ThermalZone(zone=told, celsius=millidegrees / 1000))
        return tuple(found[:MAX_ZONES])

    def throttled(self) -> int | None:
        """Return how often the machine slowed itself down since it was switched on.

        Intel's counters of each core and of the package, a Jetson's of too much current.
        """
        cores = self._counts("sys/devices/system/cpu/cpu*/thermal_throttle/core_throttle_count")
        packages = self._counts(
            "sys/devices/system/cpu/cpu*/thermal_throttle/package_throttle_count"
        )
        currents = self._counts("sys/class/hwmon/hwmon*/oc*_event_cnt")
        if not cores and not packages and not currents:
            return None
        # Each core tells what its package has counted for all of them.
        return sum(cores) + max(packages, default=0) + sum(currents)

    def power_mode(self) -> str | None:
        """Return the power mode of a Jetson by its name; None on other machines."""
        status = _text(self.root / "var/lib/nvpmodel/status")
        number = re.search(r"pmode:\s*(\d+)", status)
        if number is not None:
            known = _text(self.root / "etc/nvpmodel.conf")
            modes = {int(mode): str(name) for mode, name in _MODE.findall(known)}
            mode = int(number[1])
            return modes.get(mode, f"mode {mode}")[:_LONGEST_NAME]
        said = re.search(r"NV Power Mode:\s*(\S+)", self.ask_power_mode())
        return said[1][:_LONGEST_NAME] if said is not None else None

    def conditions(self) -> Conditions:
        """Return power mode, heat and throttling, to be told with every time that is taken."""
        hottest = max((zone.celsius for zone in self.temperatures()), default=None)
        return Conditions(self.power_mode(), hottest, self.throttled())

    def memory_limit(self) -> int | None:
        """Return the least limit of this process's cgroups in bytes; None where there is none."""
        return min(self._limits(), default=None)

    def _limits(self) -> Iterator[int]:
        for line in _text(self.root / "proc/self/cgroup").splitlines():
            _, controllers, path = (*line.split(":", 2), "", "")[:3]
            if controllers == "":
                top, name = self.root / "sys/fs/cgroup", "memory.max"
            elif "memory" in controllers.split(","):
                top, name = self.root / "sys/fs/cgroup/memory", "memory.limit_in_bytes"
            else:
                continue
            own = top / path.strip("/")
            for folder in (own, *own.parents):
                limit = _integer(folder / name)
                if limit is not None and limit < _NO_LIMIT:
                    yield limit
                if folder == top:
                    break

    def _counts(self, pattern: str) -> list[int]:
        found = (_integer(path) for path in self._glob(pattern))
        return [count for count in found if count is not None]

    def _glob(self, pattern: str) -> Iterable[Path]:
        try:
            return sorted(self.root.glob(pattern))
        except OSError:
            return []


def _number(zone: Path) -> int:
    found = _ZONE.fullmatch(zone.name)
    return int(found[1]) if found is not None else 0


def _text(path: Path) -> str:
    """Return what a file of the kernel says; nothing where it cannot be read now."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def _integer(path: Path) -> int | None:
    try:
        return int(_text(path))
    except ValueError:
        return None
