"""The record of a finished stage: what the ledger says, beside what was measured on the way."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from coordinator.topics.models.state import Model
from schemas.values import DeviceId
from simulator.datasets.samples import Samples
from simulator.engines.inprocess.stages import ledger_stages
from simulator.engines.mqtt.meter import Usage
from simulator.engines.mqtt.view import FleetView
from simulator.plan.fleet_plan import DeviceStage, FleetPlan, StagePlan
from simulator.records import DeviceRecord, RoundRecord, StageRecord, TransitionRecord

_NANOSECONDS = 1_000_000_000


@dataclass(frozen=True)
class Measured:
    """What the ledger does not tell of a stage."""

    usage: Mapping[DeviceId, Usage]
    """Of the agents that are there."""
    arrived_ns: Mapping[DeviceId, int]
    """When the stage's images had reached each of them."""
    seconds: float
    """That the stage took by the clock on the wall."""
    peak_memory_mib: float
    notes: tuple[str, ...]
    rounds: tuple[RoundRecord, ...] = ()


class Recorder:
    """Writes the records of one seed."""

    def __init__(self, plan: FleetPlan, train: Samples) -> None:
        self._plan = plan
        self._train = train

    def record(self, view: FleetView, stage: StagePlan, measured: Measured) -> StageRecord:
        """Return the record of a stage whose model runs on all devices that are there."""
        model, numbers = view.desired_model, ledger_stages(view.state, self._plan, stage)
        assert model is not None
        assert model.exported is not None
        opened_ns = view.state.stages.by_number[numbers[0]].opened_ns
        return StageRecord(
            stage=stage.number,
            class_names=self._plan.names(stage.classes),
            opened_by=view.state.stages.by_number[numbers[0]].opened_by,
            version=model.solved.version,
            model_classes=model.solved.class_names,
            aggregate=model.solved.aggregate,
            head=model.solved.head,
            manifest=model.exported.manifest.digest,
            fleet_seconds=_seconds(min(opened_ns, *measured.arrived_ns.values()), model.solved_ns),
            seconds=_phases(view, opened_ns, measured.seconds),
            peak_memory_mib=measured.peak_memory_mib,
            devices={
                name: _device(view, numbers, name, planned, measured.usage.get(name))
                for name, planned in stage.devices.items()
            },
            transitions=tuple(self._transitions(view, stage, measured.arrived_ns)),
            rounds=measured.rounds,
            novelty_checks=view.looks.of(numbers),
            contributions=view.contributions(model),
            notes=(*stage.notes, *measured.notes),
        )

    def _transitions(
        self, view: FleetView, stage: StagePlan, arrived_ns: Mapping[DeviceId, int]
    ) -> Iterator[TransitionRecord]:
        for report in view.reports:
            since_ns = arrived_ns.get(report.device)
            if since_ns is None or report.time_ns < since_ns:
                continue
            came = stage.devices[report.device].indices
            yield TransitionRecord(
                device=report.device,
                why=report.body.why,
                seconds=_seconds(since_ns, report.time_ns),
                is_new=bool(set(self._train.labels[came].tolist()) & set(stage.classes)),
                images=len(came),
            )


def _device(
    view: FleetView,
    stages: tuple[int, ...],
    name: DeviceId,
    planned: DeviceStage,
    used: Usage | None,
) -> DeviceRecord:
    """Return what a device did in some stages of the ledger; it used None where it was away."""
    arrived = len(planned.indices)
    if used is None:
        return DeviceRecord(group=planned.group, online=False, arrived_samples=arrived)
    words = [view.answered_ns[name, n] for n in stages if (name, n) in view.answered_ns]
    opened_ns = view.state.stages.by_number[stages[0]].opened_ns
    carried = view.parcels.of(name, stages)
    return DeviceRecord(
        group=planned.group,
        online=True,
        bytes_up=used.bytes_up,
        bytes_down=used.bytes_down,
        compute_seconds=used.seconds,
        arrived_samples=arrived,
        counted_samples=_counted(view, stages, name),
        stored_samples=view.stored_samples.get(name, 0),
        sent=dict(carried.sent),
        received=dict(carried.received),
        shared_images=carried.shared_images,
        answered_seconds=_seconds(opened_ns, max(words)) if words else None,
    )


def _counted(view: FleetView, stages: tuple[int, ...], device: DeviceId) -> int:
    """Return the samples of a device in the parts of some stages that are held.

    Where a network is trained, those of its last answer.
    """
    if view.state.lineages.network is not None:
        told = view.trained_samples
        return next((told[device, n] for n in reversed(stages) if (device, n) in told), 0)
    return sum(
        sum(part.samples.values())
        for part in view.state.contributions.counted.values()
        if part.device == device and part.key.stage in stages
    )


def _phases(view: FleetView, opened_ns: int, total: float) -> dict[str, float]:
    """Return the seconds of the phases that can be told apart from outside; they add up."""
    made = [
        model for model in view.state.models.by_version.values() if model.solved_ns >= opened_ns
    ]
    solve = sum(model.solved.seconds for model in made)
    export = sum(_export_seconds(view, model) for model in made)
    return {
        "solve": solve,
        "export": export,
        "fleet": max(0.0, total - solve - export),
        "total": total,
    }


def _export_seconds(view: FleetView, model: Model) -> float:
    exported_ns = model.exported_ns
    return 0.0 if exported_ns is None else _seconds(model.solved_ns, exported_ns)


def _seconds(begin_ns: int, end_ns: int) -> float:
    return max(0, end_ns - begin_ns) / _NANOSECONDS
