"""What is known of the fleet: a fold over the ledger's entries, nothing from logs."""

from __future__ import annotations

from dataclasses import dataclass, field

from coordinator.core import entries
from coordinator.core.records import Model
from coordinator.core.state import State
from coordinator.core.transitions import apply
from schemas.reports import ClassResult
from schemas.values import ClassName, DeviceId
from simulator.engines.looks import LookLog
from simulator.engines.parcels import ParcelCount


@dataclass(frozen=True)
class Report:
    """Something new that a device told, and the nanosecond in which the ledger took it in."""

    device: DeviceId
    body: entries.TransitionReported
    time_ns: int


@dataclass
class FleetView:
    """The coordinator's own state, and what is reported beside it."""

    state: State = field(default_factory=State)
    evaluations: dict[tuple[DeviceId, int], entries.DeviceEvaluated] = field(default_factory=dict)
    """The newest evaluation of each device and model version."""
    payload_bytes: dict[int, int] = field(default_factory=dict)
    """Size of each accepted payload, by ledger index."""
    opened: dict[int, str] = field(default_factory=dict)
    """Why each stage was opened."""
    answered_ns: dict[tuple[DeviceId, int], int] = field(default_factory=dict)
    """When each device last said something about a stage that was accepted."""
    exported_ns: dict[int, int] = field(default_factory=dict)
    """When each model's files were made, by version."""
    trained_samples: dict[tuple[DeviceId, int], int] = field(default_factory=dict)
    """Of each device's last answer to a round of each stage."""
    stored_samples: dict[DeviceId, int] = field(default_factory=dict)
    """Exemplars that each device said it keeps, in its last answer to a round."""
    averaged: dict[int, int] = field(default_factory=dict)
    """Number of answers in a round's mean, by ledger index of the mean."""
    parcels: ParcelCount = field(default_factory=ParcelCount)
    """What devices sent and received of each kind."""
    looks: LookLog = field(default_factory=LookLog)
    """What devices saw that look for new tasks by themselves."""
    reports: list[Report] = field(default_factory=list)
    """What devices reported as new."""
    problems: list[tuple[DeviceId | None, entries.DeviceProblem]] = field(default_factory=list)

    def take(self, body: entries.EntryBody, device: DeviceId | None, time_ns: int) -> None:
        """Take in the next entry."""
        self.parcels.take(body, device)
        self.looks.take(body, device)
        if device is not None:
            self._take_word(body, device, time_ns)
        if isinstance(body, entries.StageOpened):
            self.opened[body.stage] = body.reason
        elif isinstance(body, entries.ModelExported):
            self.exported_ns[body.version] = time_ns
        elif isinstance(body, entries.WeightsAveraged):
            self.averaged[self.state.size] = len(body.inputs)
        elif isinstance(body, entries.DeviceProblem):
            self.problems.append((device, body))
        apply(self.state, body, device, time_ns)

    def _take_word(self, body: entries.EntryBody, device: DeviceId, time_ns: int) -> None:
        match body:
            case entries.DeviceEvaluated():
                self.evaluations[device, body.version] = body
            case entries.ContributionAccepted():
                self.payload_bytes[self.state.size] = body.payload_bytes
                self.answered_ns[device, body.key.stage] = time_ns
                self._take_answer(body, device)
            case entries.ContributionWithdrawn():
                self.answered_ns[device, body.key.stage] = time_ns
            case entries.NothingReported():
                self.answered_ns[device, body.stage] = time_ns
            case entries.TransitionReported():
                self.reports.append(Report(device, body, time_ns))

    def _take_answer(self, body: entries.ContributionAccepted, device: DeviceId) -> None:
        if body.answer is not None:
            self.trained_samples[device, body.key.stage] = body.answer.samples
            self.stored_samples[device] = body.answer.stored_samples

    def contributions(self, model: Model) -> int:
        """Count what is in a model; of a network, the answers of its last round, if it had any."""
        if isinstance(model.lineage, entries.NetworkImported):
            (index,) = model.solved.inputs
            return self.averaged.get(index, 0)
        return len(model.solved.inputs)

    @property
    def desired(self) -> int | None:
        """The version that all devices are to run."""
        return self.state.desired.version if self.state.desired else None

    @property
    def desired_model(self) -> Model | None:
        """The model that all devices are to run, if there is one yet."""
        return None if self.desired is None else self.state.models[self.desired]

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
