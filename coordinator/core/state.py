"""The coordinator's state: a fold of `apply` over the ledger, and nothing else.

`apply` is the only function that changes a `State`. It changes it in place, because a copy for
every entry would cost as much as the fleet is large.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from coordinator.core import entries
from coordinator.core.registry import ClassRegistry
from schemas.contributions import HeldPart, PartKey
from schemas.presence import Capabilities
from schemas.values import BootId, ClassName, DeviceId, Digest


@dataclass
class Part:
    """The newest revision of one part of a device: held, or withdrawn."""

    index: int
    revision: int
    payload: Digest | None
    """None when the part was withdrawn."""

    @property
    def held(self) -> bool:
        """Whether the part is in the sum."""
        return self.payload is not None


@dataclass
class Device:
    """An admitted device and what it has done."""

    admitted_index: int
    boot: BootId | None = None
    installation: BootId | None = None
    capabilities: Capabilities | None = None
    parts: dict[PartKey, Part] = field(default_factory=dict)
    nothing: dict[int, int] = field(default_factory=dict)
    """Stage to the index of the entry that says the device has nothing for it."""
    active_version: int | None = None
    model_state: str = ""
    model_reason: str = ""
    model_versions_seen: dict[int, str] = field(default_factory=dict)
    """Version to the last state reported for it."""
    evaluated_version: int | None = None

    def answered(self, stage: int) -> bool:
        """Whether the device contributed to the stage or said that it has nothing."""
        return stage in self.nothing or any(
            key.stage == stage and part.held for key, part in self.parts.items()
        )

    def held_parts(self) -> list[HeldPart]:
        """Parts in the sum, in the order of their keys."""
        return [
            HeldPart(key=key, revision=part.revision, payload=part.payload)
            for key, part in sorted(
                self.parts.items(), key=lambda item: (item[0].stage, item[0].part)
            )
            if part.payload is not None
        ]

    @property
    def next_part(self) -> int:
        """A part number above all that this device ever used."""
        return max((key.part for key in self.parts), default=-1) + 1


@dataclass
class Stage:
    """Classes learned together."""

    opened_index: int
    opened_ns: int
    class_names: tuple[ClassName, ...]
    closed_index: int | None = None
    last_answer_ns: int | None = None


@dataclass
class Counted:
    """A contribution that is in the sum."""

    device: DeviceId
    key: PartKey
    payload: Digest
    lineage: Digest
    samples: dict[ClassName, int]


@dataclass
class Model:
    """A solved model; exported once it has a manifest."""

    solved: entries.ModelSolved
    solved_index: int
    exported: entries.ModelExported | None = None


@dataclass
class Desired:
    """The version that devices are to run, and the entry that says so."""

    version: int
    action: int


@dataclass
class State:
    """Everything that the rules decide on."""

    size: int = 0
    """Number of entries applied; the index of the next one."""
    devices: dict[DeviceId, Device] = field(default_factory=dict)
    classes: ClassRegistry = field(default_factory=ClassRegistry)
    lineage: entries.BackboneImported | None = None
    stages: dict[int, Stage] = field(default_factory=dict)
    counted: dict[int, Counted] = field(default_factory=dict)
    """Contributions in the sum, by ledger index."""
    models: dict[int, Model] = field(default_factory=dict)
    failed_solve: entries.SolveFailed | None = None
    desired: Desired | None = None
    desired_history: list[int] = field(default_factory=list)
    """Versions that were desired for all devices, oldest first."""
    desired_by_device: dict[DeviceId, Desired] = field(default_factory=dict)
    held: bool = False
    assignment_action: int = 0
    """Index of the last entry that changed what devices are asked to do."""

    @property
    def current_stage(self) -> int | None:
        """Number of the newest stage."""
        return max(self.stages, default=None)

    @property
    def newest_model(self) -> Model | None:
        """The model with the highest version."""
        return self.models[max(self.models)] if self.models else None

    def desired_for(self, device: DeviceId) -> Desired | None:
        """The version that this device is to run."""
        return self.desired_by_device.get(device, self.desired)

    def inputs(self) -> tuple[int, ...]:
        """Ledger indices of the contributions of the current lineage that are in the sum."""
        if self.lineage is None:
            return ()
        lineage = self.lineage.frozen.digest
        return tuple(sorted(i for i, item in self.counted.items() if item.lineage == lineage))

    def apply(
        self, body: entries.EntryBody, device: DeviceId | None = None, time_ns: int = 0
    ) -> None:
        """Take in the next entry; its index is `size`."""
        _APPLY[type(body)](self, body, device, time_ns)
        self.size += 1


def _device_admitted(
    state: State, body: entries.DeviceAdmitted, _device: DeviceId | None, _time_ns: int
) -> None:
    state.devices.setdefault(body.device, Device(admitted_index=state.size))


def _device_born(
    state: State, body: entries.DeviceBorn, device: DeviceId | None, _time_ns: int
) -> None:
    record = _known(state, device)
    record.boot, record.installation = body.boot, body.installation
    record.capabilities = body.capabilities


def _backbone_imported(
    state: State, body: entries.BackboneImported, _device: DeviceId | None, _time_ns: int
) -> None:
    state.lineage = body
    state.assignment_action = state.size


def _class_named(
    state: State, body: entries.ClassNamed, _device: DeviceId | None, _time_ns: int
) -> None:
    state.classes.name(body.name, body.index)
    state.assignment_action = state.size


def _class_renamed(
    state: State, body: entries.ClassRenamed, _device: DeviceId | None, _time_ns: int
) -> None:
    state.classes.rename(body.old, body.new)
    state.assignment_action = state.size


def _class_merged(
    state: State, body: entries.ClassMerged, _device: DeviceId | None, _time_ns: int
) -> None:
    state.classes.merge(body.source, body.target)
    state.assignment_action = state.size


def _stage_opened(
    state: State, body: entries.StageOpened, _device: DeviceId | None, time_ns: int
) -> None:
    state.stages[body.stage] = Stage(state.size, time_ns, body.class_names)
    state.assignment_action = state.size


def _stage_closed(
    state: State, body: entries.StageClosed, _device: DeviceId | None, _time_ns: int
) -> None:
    state.stages[body.stage].closed_index = state.size


def _contribution_accepted(
    state: State, body: entries.ContributionAccepted, device: DeviceId | None, time_ns: int
) -> None:
    record = _known(state, device)
    _forget(state, body.replaces)
    record.parts[body.key] = Part(state.size, body.revision, body.payload)
    assert device is not None
    state.counted[state.size] = Counted(
        device, body.key, body.payload, body.lineage, dict(body.samples)
    )
    _note_answer(state, body.key.stage, time_ns)


def _contribution_withdrawn(
    state: State, body: entries.ContributionWithdrawn, device: DeviceId | None, _time_ns: int
) -> None:
    _forget(state, body.replaces)
    _known(state, device).parts[body.key] = Part(state.size, body.revision, None)


def _nothing_reported(
    state: State, body: entries.NothingReported, device: DeviceId | None, time_ns: int
) -> None:
    _known(state, device).nothing[body.stage] = state.size
    _note_answer(state, body.stage, time_ns)


def _model_solved(
    state: State, body: entries.ModelSolved, _device: DeviceId | None, _time_ns: int
) -> None:
    state.models[body.version] = Model(body, state.size)
    state.failed_solve = None


def _model_exported(
    state: State, body: entries.ModelExported, _device: DeviceId | None, _time_ns: int
) -> None:
    state.models[body.version].exported = body


def _solve_failed(
    state: State, body: entries.SolveFailed, _device: DeviceId | None, _time_ns: int
) -> None:
    state.failed_solve = body


def _model_desired(
    state: State, body: entries.ModelDesired, _device: DeviceId | None, _time_ns: int
) -> None:
    desired = Desired(body.version, state.size)
    if body.devices is None:
        state.desired = desired
        state.desired_by_device.clear()
        state.desired_history.append(body.version)
    else:
        state.desired_by_device.update(dict.fromkeys(body.devices, desired))


def _models_held(
    state: State, body: entries.ModelsHeld, _device: DeviceId | None, _time_ns: int
) -> None:
    state.held = body.held


def _device_model_status(
    state: State, body: entries.DeviceModelStatus, device: DeviceId | None, _time_ns: int
) -> None:
    record = _known(state, device)
    record.model_state, record.model_reason = body.state, body.reason
    record.model_versions_seen[body.version] = body.state
    if body.state == "active":
        record.active_version = body.version


def _device_evaluated(
    state: State, body: entries.DeviceEvaluated, device: DeviceId | None, _time_ns: int
) -> None:
    _known(state, device).evaluated_version = body.version


def _device_problem(
    _state: State, _body: entries.DeviceProblem, _device: DeviceId | None, _time_ns: int
) -> None:
    """Problems are for people; they change nothing that is decided."""


def _known(state: State, device: DeviceId | None) -> Device:
    assert device is not None
    return state.devices[device]


def _forget(state: State, index: int | None) -> None:
    if index is not None:
        state.counted.pop(index, None)


def _note_answer(state: State, stage: int, time_ns: int) -> None:
    state.stages[stage].last_answer_ns = time_ns


# Each function takes the body type under which it is listed; one table cannot say so in types.
_APPLY: dict[type[entries.EntryBody], Callable[..., None]] = {
    entries.DeviceAdmitted: _device_admitted,
    entries.DeviceBorn: _device_born,
    entries.BackboneImported: _backbone_imported,
    entries.ClassNamed: _class_named,
    entries.ClassRenamed: _class_renamed,
    entries.ClassMerged: _class_merged,
    entries.StageOpened: _stage_opened,
    entries.StageClosed: _stage_closed,
    entries.ContributionAccepted: _contribution_accepted,
    entries.ContributionWithdrawn: _contribution_withdrawn,
    entries.NothingReported: _nothing_reported,
    entries.ModelSolved: _model_solved,
    entries.ModelExported: _model_exported,
    entries.SolveFailed: _solve_failed,
    entries.ModelDesired: _model_desired,
    entries.ModelsHeld: _models_held,
    entries.DeviceModelStatus: _device_model_status,
    entries.DeviceEvaluated: _device_evaluated,
    entries.DeviceProblem: _device_problem,
}
