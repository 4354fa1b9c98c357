"""What the demo knows of the fleet: a fold over the ledger's entries, nothing from logs."""

from __future__ import annotations

from dataclasses import dataclass, field

from coordinator.core import entries
from coordinator.core.state import State
from coordinator.core.transitions import apply
from schemas.reports import ClassResult
from schemas.values import ClassName, DeviceId


@dataclass
class FleetView:
    """The coordinator's own state, and what the demo reports beside it."""

    state: State = field(default_factory=State)
    evaluations: dict[tuple[DeviceId, int], entries.DeviceEvaluated] = field(default_factory=dict)
    """The newest evaluation of each device and model version."""
    payload_bytes: dict[int, int] = field(default_factory=dict)
    """Size of each accepted payload, by ledger index."""
    opened: dict[int, str] = field(default_factory=dict)
    """Why each stage was opened."""
    reports: list[tuple[DeviceId | None, entries.TransitionReported]] = field(default_factory=list)
    """What devices reported as new."""
    problems: list[tuple[DeviceId | None, entries.DeviceProblem]] = field(default_factory=list)

    def take(self, body: entries.EntryBody, device: DeviceId | None, time_ns: int) -> None:
        """Take in the next entry."""
        if isinstance(body, entries.DeviceEvaluated) and device is not None:
            self.evaluations[device, body.version] = body
        elif isinstance(body, entries.ContributionAccepted):
            self.payload_bytes[self.state.size] = body.payload_bytes
        elif isinstance(body, entries.StageOpened):
            self.opened[body.stage] = body.reason
        elif isinstance(body, entries.TransitionReported):
            self.reports.append((device, body))
        elif isinstance(body, entries.DeviceProblem):
            self.problems.append((device, body))
        apply(self.state, body, device, time_ns)

    @property
    def desired(self) -> int | None:
        """The version that all devices are to run."""
        return self.state.desired.version if self.state.desired else None

    @property
    def born(self) -> set[DeviceId]:
        """Devices that have connected."""
        return {name for name, device in self.state.devices.items() if device.boot is not None}

    def counted(self) -> dict[ClassName, int]:
        """Return the images in the sum per class."""
        total: dict[ClassName, int] = {}
        for part in self.state.counted.values():
            for name, number in part.samples.items():
                total[name] = total.get(name, 0) + number
        return total

    def active(self, version: int) -> set[DeviceId]:
        """Return the devices that run `version`."""
        return {
            name for name, device in self.state.devices.items() if device.active_version == version
        }

    def results(self, version: int) -> dict[DeviceId, dict[ClassName, ClassResult]]:
        """Return each device's right answers with `version`, per class."""
        return {
            device: evaluation.results
            for (device, evaluated), evaluation in self.evaluations.items()
            if evaluated == version
        }
