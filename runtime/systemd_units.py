"""The systemd units of all programs that run for good: one text, from which all are made.

They may write into their home and nowhere else, gain no rights, and reach no hardware but what a
model runs on; `systemd-analyze security` gives each at most 2.0 of 10. The two that run models have
neither `PrivateDevices` nor `MemoryDenyWriteExecute`, which GPUs and their compilers cannot bear.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from fleetledger.runtime.errors import InvalidValueError

PROGRAM = Path("/opt/fleetledger/bin/fleetledger")
"""Where the documented ways of installing put it."""
_STATE = Path("/var/lib")
_HOMES = (Path("/home"), Path("/root"), Path("/run/user"))
"""What `ProtectHome` is about."""
_PLAIN_PATH = re.compile(r"/[A-Za-z0-9._/+-]*")


class UnitKind(Enum):
    """The programs that systemd runs."""

    AGENT = "agent"
    INFER = "infer"
    COORDINATOR = "coordinator"
    DASHBOARD = "dashboard"

    @property
    def file_name(self) -> str:
        """Name of the unit's file."""
        return f"fleetledger-{self.value}.service"


DEVICE_UNITS = (UnitKind.AGENT, UnitKind.INFER)
"""The units of a device."""


@dataclass(frozen=True)
class _Program:
    """What one program's unit says that others' do not."""

    description: str
    words: str
    home: Path
    user: str
    after: str
    lines: tuple[str, ...]
    families: str = "AF_UNIX AF_INET AF_INET6"
    """Of addresses."""


_COORDINATOR_HOME, _COORDINATOR_USER = _STATE / "fleetledger-coordinator", "fleetledger-coordinator"
_PROGRAMS = {
    UnitKind.AGENT: _Program(
        "fleetledger agent",
        "agent run",
        _STATE / "fleetledger",
        "fleetledger",
        "network-online.target time-sync.target nvpmodel.service",
        (
            "WatchdogSec=120",
            "TimeoutStartSec=300",
            "Nice=5",
            "# A model on trial is a process of its own: where memory ends it, the agent goes on.",
            "MemoryHigh=60%",
            "MemoryMax=75%",
            "OOMPolicy=continue",
        ),
    ),
    UnitKind.INFER: _Program(
        "fleetledger model for applications",
        "agent serve",
        _STATE / "fleetledger",
        "fleetledger",
        "fleetledger-agent.service nvpmodel.service",
        (
            "WatchdogSec=60",
            "# Where no model is active yet it ends, and is begun again until there is one.",
            "TimeoutStartSec=300",
            "MemoryHigh=60%",
            "MemoryMax=75%",
            "# It listens on a file in its home.",
            "PrivateNetwork=yes",
            "IPAddressDeny=any",
        ),
        families="AF_UNIX",
    ),
    UnitKind.COORDINATOR: _Program(
        "fleetledger coordinator",
        "coordinator serve",
        _COORDINATOR_HOME,
        _COORDINATOR_USER,
        "network-online.target time-sync.target mosquitto.service",
        (
            "WatchdogSec=300",
            "# It reads its whole ledger before it is ready.",
            "TimeoutStartSec=1800",
            "PrivateDevices=yes",
        ),
    ),
    UnitKind.DASHBOARD: _Program(
        "fleetledger dashboard",
        "dashboard",
        _COORDINATOR_HOME,
        _COORDINATOR_USER,
        "network-online.target fleetledger-coordinator.service",
        ("WatchdogSec=60", "TimeoutStartSec=300", "PrivateDevices=yes", "MemoryMax=1G"),
    ),
}
_SANDBOX = """\
UMask=0027
NoNewPrivileges=yes
CapabilityBoundingSet=
AmbientCapabilities=
ProtectSystem=strict
PrivateTmp=yes
ProtectProc=invisible
ProtectClock=yes
ProtectHostname=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
ProtectControlGroups=yes
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
RemoveIPC=yes
LockPersonality=yes
SystemCallArchitectures=native
SystemCallFilter=@system-service
SystemCallFilter=~@privileged @obsolete
SystemCallErrorNumber=EPERM"""


@dataclass(frozen=True)
class ServiceUnit:
    """A unit, for where its program and its home are; left out, for the documented places."""

    kind: UnitKind
    home: Path | None = None
    program: Path = PROGRAM
    user: str | None = None
    groups: tuple[str, ...] = ()
    """Further groups, such as `video` and `render` for a GPU; each must be there."""
    data: Path | None = None
    """A folder that it reads; homes of people are shown to it only where this is below them."""

    @property
    def used_home(self) -> Path:
        """Where the program keeps what it has."""
        return self.home or _PROGRAMS[self.kind].home

    @property
    def used_user(self) -> str:
        """Whose rights it has."""
        return self.user or _PROGRAMS[self.kind].user

    def text(self) -> str:
        """Return the file; raise `InvalidValueError` for a path that a unit cannot name."""
        for path in (self.used_home, self.program):
            if not _PLAIN_PATH.fullmatch(str(path)):
                raise InvalidValueError(
                    "path", str(path), "give a whole one of letters, digits and ._/+-"
                )
        return "\n".join(self._lines()) + "\n"

    def _lines(self) -> Iterator[str]:
        program = _PROGRAMS[self.kind]
        yield "[Unit]"
        yield f"Description={program.description}"
        if "network-online.target" in program.after:
            yield "Wants=network-online.target"
        yield f"After={program.after}"
        yield "StartLimitIntervalSec=0"
        yield ""
        yield "[Service]"
        yield "Type=notify"
        yield "NotifyAccess=main"
        yield f"ExecStart={self.program} {program.words} --home {self.used_home}"
        yield "Restart=always"
        yield "RestartSec=5"
        yield f"User={self.used_user}"
        yield from _group_lines(self.groups)
        yield from self._places()
        yield from program.lines
        yield f"RestrictAddressFamilies={program.families}"
        yield _SANDBOX
        yield ""
        yield "[Install]"
        yield "WantedBy=multi-user.target"

    def _places(self) -> Iterator[str]:
        """Say where it may write, and whether it sees homes of people."""
        home = self.used_home
        if home.parent == _STATE:
            yield f"StateDirectory={home.name}"
            yield f"StateDirectoryMode={'0700' if home == _COORDINATOR_HOME else '0750'}"
        else:
            yield f"ReadWritePaths={home}"
        seen = any(path.is_relative_to(place) for path in self._used for place in _HOMES)
        yield f"ProtectHome={'read-only' if seen else 'yes'}"

    @property
    def _used(self) -> tuple[Path, ...]:
        return tuple(path for path in (self.used_home, self.program, self.data) if path is not None)


def _group_lines(groups: Iterable[str]) -> Iterator[str]:
    names = " ".join(groups)
    if names:
        yield f"SupplementaryGroups={names}"
