"""What the state knows of stages, and of what devices report as new."""

from __future__ import annotations

from dataclasses import dataclass, field

from fleetledger.coordinator.core.entry import OPERATOR
from fleetledger.coordinator.topics.lineages.state import LineagesState
from fleetledger.schemas.contributions import PartKey
from fleetledger.schemas.privacy import Privacy
from fleetledger.schemas.values import ClassName, DeviceId, Digest


@dataclass(frozen=True)
class Reported:
    """A transition that is in the ledger, by entry and content."""

    index: int
    content: Digest


@dataclass
class Stage:
    """Classes learned together."""

    opened_index: int
    opened_ns: int
    """When it was opened, or when statistics began in it, where a network was frozen first."""
    asked_ns: int
    """When its entry was made."""
    class_names: tuple[ClassName, ...]
    opened_by: str = OPERATOR
    """The operator, or the reports that opened it, in words."""
    closed_index: int | None = None
    closed_ns: int | None = None
    closed_because: str | None = None
    answered: int | None = None
    expected: int | None = None
    """Devices that had answered when it closed, and those that were asked."""
    privacy: Privacy | None = None

    @property
    def masked(self) -> bool:
        """Whether devices are summed behind masks."""
        return self.privacy is not None and self.privacy.masks is not None


@dataclass(frozen=True)
class DoubtsReported:
    """A report of unsure images: when it came, and for how long it may confirm others."""

    time_ns: int
    within_seconds: float


@dataclass
class Reports:
    """What one device reports as new."""

    transitions: dict[PartKey, Reported] = field(default_factory=dict)
    """By stage and number."""
    named: dict[ClassName, int] = field(default_factory=dict)
    """Class names that the device reported as new, with their number of images."""
    doubts: DoubtsReported | None = None
    """The last report of unsure images since the newest stage was opened."""


@dataclass
class StagesState:
    """Stages, and the reports that may open the next one."""

    lineages: LineagesState = field(repr=False, compare=False)
    """A part before this one, to read from."""
    by_number: dict[int, Stage] = field(default_factory=dict)
    reports: dict[DeviceId, Reports] = field(default_factory=dict)
    """Of devices that ever reported something, in the order of their first reports."""
    last_report_ns: int | None = None
    """When a transition was last reported."""
    in_rounds: bool = False
    """Whether a network leads, whose stages are learned in rounds."""
    changed: int = 0
    """Index of the last entry that opened one."""

    @property
    def current(self) -> int | None:
        """Number of the newest stage."""
        return max(self.by_number, default=None)

    @property
    def open(self) -> int | None:
        """Number of the newest stage, while it is open."""
        number = self.current
        return number if number and self.by_number[number].closed_index is None else None

    @property
    def reported_since(self) -> list[int]:
        """Entries of what devices reported since the newest stage was opened, oldest first."""
        since = -1 if self.current is None else self.by_number[self.current].opened_index
        told = (said for one in self.reports.values() for said in one.transitions.values())
        return sorted(said.index for said in told if said.index > since)

    def masked(self, number: int) -> bool:
        """Return whether devices are summed behind masks in a stage."""
        stage = self.by_number.get(number)
        return stage is not None and stage.masked

    def reports_of(self, device: DeviceId) -> Reports:
        """Return what a device reports as new, to read."""
        return self.reports.get(device) or Reports()
