"""What is known of the fleet: a fold over the ledger's entries, nothing from logs."""

from __future__ import annotations

from dataclasses import dataclass, field

from coordinator.core.entry import EntryBody
from coordinator.core.state import State
from coordinator.topics.contributions.entries import ContributionAccepted
from coordinator.topics.devices.entries import DeviceProblem
from coordinator.topics.models.entries import DeviceEvaluated
from coordinator.topics.models.state import ModelVersion
from coordinator.topics.stages.entries import TransitionReported
from schemas.reports import ClassResult
from schemas.values import ClassName, DeviceId


@dataclass(frozen=True)
class Report:
    """Something new that a device told, and the nanosecond in which the ledger took it in."""

    device: DeviceId
    body: TransitionReported
    time_ns: int


@dataclass
class FleetView:
    """The coordinator's own state, and what is reported beside it."""

    state: State = field(default_factory=State)
    evaluations: dict[tuple[DeviceId, int], DeviceEvaluated] = field(default_factory=dict)
    """The newest evaluation of each device and model version."""
    payload_bytes: dict[int, int] = field(default_factory=dict)
    """Size of each accepted payload, by ledger index."""
    reports: list[Report] = field(default_factory=list)
    """What devices reported as new."""
    problems: list[tuple[DeviceId | None, DeviceProblem]] = field(default_factory=list)

    def take(self, body: EntryBody, device: DeviceId | None, time_ns: int) -> None:
        """Take in the next entry."""
        if device is not None:
            self._take_word(body, device, time_ns)
        if isinstance(body, DeviceProblem):
            self.problems.append((device, body))
        self.state.apply(body, device, time_ns)

    def _take_word(self, body: EntryBody, device: DeviceId, time_ns: int) -> None:
        match body:
            case DeviceEvaluated():
                self.evaluations[device, body.version] = body
            case ContributionAccepted():
                self.payload_bytes[self.state.size] = body.payload_bytes
            case TransitionReported():
                self.reports.append(Report(device, body, time_ns))

    @property
    def desired(self) -> int | None:
        """The version that all devices are to run."""
        return self.state.models.desired.version if self.state.models.desired else None

    @property
    def desired_model(self) -> ModelVersion | None:
        """The model that all devices are to run, if there is one yet."""
        return None if self.desired is None else self.state.models.by_version[self.desired]

    @property
    def born(self) -> set[DeviceId]:
        """Devices that have connected."""
        return {
            name for name, device in self.state.devices.admitted.items() if device.boot is not None
        }

    def counted(self) -> dict[ClassName, int]:
        """Return the images in the sum per class."""
        total: dict[ClassName, int] = {}
        for part in self.state.contributions.counted.values():
            for name, number in part.samples.items():
                total[name] = total.get(name, 0) + number
        return total

    def active(self, version: int) -> set[DeviceId]:
        """Return the devices that run `version`."""
        running = self.state.models.by_device.items()
        return {name for name, device in running if device.active_version == version}

    def results(self, version: int) -> dict[DeviceId, dict[ClassName, ClassResult]]:
        """Return each device's right answers with `version`, per class."""
        return {
            device: evaluation.results
            for (device, evaluated), evaluation in self.evaluations.items()
            if evaluated == version
        }
