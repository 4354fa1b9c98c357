"""The record of a stage: from the ledger, and from what was measured while it was learned."""

from __future__ import annotations

import resource
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from coordinator.core.entry import EntryBody
from coordinator.core.state import State, read_entry
from coordinator.ledger.entries import Entry
from coordinator.ledger.store import Ledger
from coordinator.topics.contributions.entries import ContributionAccepted, NothingReported
from coordinator.topics.models.state import Model
from coordinator.topics.proxy.entries import OldModelChosen
from coordinator.topics.stages.entries import TransitionReported
from schemas.values import DeviceId
from simulator.engines.inprocess.presence import delivered
from simulator.engines.inprocess.stages import closed_index, ledger_stages, model_of
from simulator.engines.looks import LookLog
from simulator.engines.parcels import ParcelCount
from simulator.errors import EngineError
from simulator.plan.fleet_plan import FleetPlan, StagePlan
from simulator.records import DeviceRecord, ProxyRecord, RoundRecord, StageRecord, TransitionRecord
from simulator.virtual.proxy import ProxyTraffic
from transport.meter import Counts

NANOSECONDS = 1_000_000_000
MIB = 1024
Found = tuple[Entry, EntryBody]


@dataclass(frozen=True)
class Measured:
    """What was measured beside the ledger."""

    traffic: Mapping[DeviceId, Counts]
    compute_seconds: Mapping[DeviceId, float]
    seconds: dict[str, float]
    arrived_ns: int
    """When the stage's data had come, by the fleet's clock."""
    online: frozenset[DeviceId]
    notes: tuple[str, ...]
    rounds: tuple[RoundRecord, ...] = ()
    proxy: ProxyTraffic | None = None


class Recorder:
    """Makes the record of one stage of one plan."""

    def __init__(self, ledger: Ledger, state: State, plan: FleetPlan, stage: StagePlan) -> None:
        self._ledger = ledger
        self._state = state
        self._plan = plan
        self._stage = stage
        self._numbers = ledger_stages(state, plan, stage)

    def record(self, measured: Measured) -> StageRecord:
        """Return the record; raise `EngineError` if the ledger has no model of the stage."""
        model = model_of(self._state, self._plan, self._stage)
        if model is None or model.exported is None:
            raise EngineError(f"stage {self._stage.number}: the ledger has no model of it")
        found = self._entries()
        own: dict[DeviceId, list[Found]] = {}
        parcels, looks = ParcelCount(self._state.lineages.network), LookLog()
        for entry, body in found:
            parcels.take(body, entry.device)
            looks.take(body, entry.device)
            if entry.device is not None:
                own.setdefault(entry.device, []).append((entry, body))
        return StageRecord(
            stage=self._stage.number,
            class_names=self._plan.names(self._stage.classes),
            opened_by=self._opened_by(),
            version=model.solved.version,
            model_classes=model.solved.class_names,
            aggregate=model.solved.aggregate,
            head=model.solved.head,
            manifest=model.exported.manifest.digest,
            fleet_seconds=self._fleet_seconds(model, measured),
            seconds=measured.seconds,
            peak_memory_mib=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / MIB,
            devices={
                name: self._device(name, own.get(name, []), parcels, measured)
                for name in self._stage.devices
            },
            transitions=tuple(self._transitions(found, measured)),
            rounds=measured.rounds,
            novelty_checks=looks.of(self._numbers),
            proxy=self._proxy(found, measured),
            contributions=self._contributions(model),
            notes=(*self._stage.notes, *measured.notes),
        )

    def _proxy(self, found: list[Found], measured: Measured) -> ProxyRecord | None:
        if measured.proxy is None:
            return None
        return _proxy_record((body for _, body in found), measured.proxy)

    def _contributions(self, model: Model) -> int:
        """Count what is in the model; of a network, the answers of its last round.

        A network that was imported with trained weights has none yet.
        """
        if model.lineage.in_rounds:
            (index,) = model.solved.inputs
            return self._state.rounds.answers_in(index)
        return len(model.solved.inputs)

    def _entries(self) -> list[Found]:
        """Return what happened from the closing of the stage before to that of this one."""
        before = tuple(
            number
            for item in self._plan.stages[: self._stage.number - 1]
            for number in ledger_stages(self._state, self._plan, item)
        )
        start = closed_index(self._state, before) + 1
        end = closed_index(self._state, self._numbers) + 1
        return [
            (entry, read_entry(entry.kind, entry.body))
            for entry in self._ledger.entries(start, end)
        ]

    def _opened_by(self) -> str:
        return self._state.stages.by_number[self._numbers[0]].opened_by

    def _opened_ns(self) -> int:
        return self._state.stages.by_number[self._numbers[0]].opened_ns

    def _fleet_seconds(self, model: Model, measured: Measured) -> float:
        assert model.exported is not None
        return max(
            0.0, (model.solved_ns - min(measured.arrived_ns, self._opened_ns())) / NANOSECONDS
        )

    def _device(
        self, name: DeviceId, own: list[Found], parcels: ParcelCount, measured: Measured
    ) -> DeviceRecord:
        words = [
            entry.time_ns
            for entry, body in own
            if isinstance(body, ContributionAccepted | NothingReported)
        ]
        accepted = [b for _, b in own if isinstance(b, ContributionAccepted)]
        counts = measured.traffic.get(name, Counts())
        met, carried = self._stage.devices[name], parcels.of(name, self._numbers)
        return DeviceRecord(
            group=met.group,
            online=name in measured.online,
            bytes_up=counts.bytes_up,
            bytes_down=counts.bytes_down,
            compute_seconds=measured.compute_seconds.get(name, 0.0),
            arrived_samples=len(met.indices),
            counted_samples=_counted(accepted),
            stored_samples=next(
                (b.answer.stored_samples for b in reversed(accepted) if b.answer is not None), 0
            ),
            sent=dict(carried.sent),
            received=dict(carried.received),
            shared_images=carried.shared_images,
            answered_seconds=(
                max(0.0, (max(words) - self._opened_ns()) / NANOSECONDS) if words else None
            ),
        )

    def _transitions(self, found: list[Found], measured: Measured) -> list[TransitionRecord]:
        return [
            TransitionRecord(
                device=entry.device,
                why=body.why,
                seconds=max(0.0, (entry.time_ns - measured.arrived_ns) / NANOSECONDS),
                is_new=self._has_new(entry.device),
                images=len(self._stage.devices[entry.device].indices)
                if entry.device in self._stage.devices
                else 0,
            )
            for entry, body in found
            if isinstance(body, TransitionReported) and entry.device is not None
        ]

    def _has_new(self, device: DeviceId) -> bool:
        """Whether a device holds images of a class that came with this stage."""
        return any(
            number == self._stage.number and len(indices)
            for number, indices in delivered(self._plan, device, self._stage.number)
        )


def _counted(accepted: list[ContributionAccepted]) -> int:
    """Return the samples of the statistics, or of the last round where there are none."""
    sums = [body for body in accepted if body.round is None]
    return sum(sum(body.samples.values()) for body in sums or accepted[-1:])


def _proxy_record(bodies: Iterable[EntryBody], traffic: ProxyTraffic) -> ProxyRecord:
    """Return what went to a proxy, given a stage's entries and what was carried meanwhile."""
    weights, scored = 0, 0
    for body in bodies:
        if isinstance(body, ContributionAccepted) and body.answer is not None:
            weights += body.payload_bytes
        elif isinstance(body, OldModelChosen) and body.newest is not None:
            scored += 1
    return ProxyRecord(
        gradient_bytes=traffic.devices.bytes_down,
        weight_bytes=weights,
        scored=scored,
        model_bytes=traffic.coordinator.bytes_down,
    )
