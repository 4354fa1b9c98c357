"""What is known of the fleet: a fold over the ledger's entries, nothing from logs."""

from __future__ import annotations

from dataclasses import dataclass, field

from fleetledger.coordinator.core.entry import EntryBody
from fleetledger.coordinator.core.state import State
from fleetledger.coordinator.topics.models.entries import DeviceEvaluated
from fleetledger.coordinator.topics.models.state import ModelVersion
from fleetledger.schemas.reports import ClassResult
from fleetledger.schemas.values import ClassName, DeviceId


@dataclass
class FleetView:
    """The coordinator's own state, and what is reported beside it."""

    state: State = field(default_factory=State)
    evaluations: dict[tuple[DeviceId, int], DeviceEvaluated] = field(default_factory=dict)
    """The newest evaluation of each device and model version."""

    def apply(self, body: EntryBody, device: DeviceId | None, time_ns: int) -> None:
        """Take in the next entry."""
        if isinstance(body, DeviceEvaluated) and device is not None:
            self.evaluations[device, body.version] = body
        self.state.apply(body, device, time_ns)

    @property
    def desired(self) -> int | None:
        """The version that all devices are to run."""
        return self.state.models.desired.version if self.state.models.desired else None

    @property
    def desired_model(self) -> ModelVersion | None:
        """The model that all devices are to run, if there is one yet."""
        return None if self.desired is None else self.state.models.by_version[self.desired]

    def active(self, version: int) -> set[DeviceId]:
        """Return the devices that run `version`."""
        running = self.state.models.by_device.items()
        return {name for name, device in running if device.active_version == version}

    def accuracy(self, version: int) -> float | None:
        """Return the share of right answers of all devices with `version`; None without any."""
        results = [result for found in self.results(version).values() for result in found.values()]
        asked = sum(result.total for result in results)
        return sum(result.correct for result in results) / asked if asked else None

    def results(self, version: int) -> dict[DeviceId, dict[ClassName, ClassResult]]:
        """Return each device's right answers with `version`, per class."""
        return {
            device: evaluation.results
            for (device, evaluated), evaluation in self.evaluations.items()
            if evaluated == version
        }
