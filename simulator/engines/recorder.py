"""The record of a stage, the same under every engine: one reading of the ledger, entry by entry.

What only an engine knows (bytes of transports, seconds of computing, when data arrived) it gives as
`StageMeasures`. Everything else follows from the ledger, by these rules:

- A stage's entries are those after the ones of the stage before, up to its closing and its model.
  What comes later belongs to the next stage, so the record of a stage is the same while its model
  goes round, and when a run is gone on with.
- A device's samples of a stage are what its model has of it more than the model of the stage
  before: revised parts count by what they grew, withdrawn ones and those that are left out not, and
  what waited for a device's return, or came late, counts with the model that it is in. So a
  device's stages add up to what the last model has of it. Answers to rounds are in no sum; there
  it is the samples of the device's last answer.
- A device keeps its exemplars until it says otherwise, also in stages in which nobody asked it.
- Every report of something new is in a record. It is right where the device had been given images
  of the stage before it spoke.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field

from fleetledger.coordinator.core.entry import EntryBody
from fleetledger.coordinator.core.kind import EntryContext
from fleetledger.coordinator.core.state import State
from fleetledger.coordinator.models.held_parts import HeldParts
from fleetledger.coordinator.topics.contributions.entries import (
    ContributionAccepted,
    ContributionWithdrawn,
    NothingReported,
)
from fleetledger.coordinator.topics.models.state import ModelVersion
from fleetledger.coordinator.topics.proxy.entries import OldModelChosen
from fleetledger.coordinator.topics.stages.entries import TransitionReported
from fleetledger.schemas.values import DeviceId
from fleetledger.simulator.engines.novelty_checks import NoveltyLog
from fleetledger.simulator.engines.stages import closed_index, ledger_stages, model_of
from fleetledger.simulator.engines.traffic_by_kind import KindTrafficCount
from fleetledger.simulator.errors import EngineError
from fleetledger.simulator.plan.fleet_plan import DeviceStage, FleetPlan, StagePlan
from fleetledger.simulator.records import (
    DeviceRecord,
    ProxyRecord,
    RoundRecord,
    StageRecord,
    TransitionRecord,
)

NANOSECONDS = 1_000_000_000

Recorded = tuple[EntryBody, DeviceId | None, int]
"""An entry's body, the device that made it, and the nanosecond it was committed."""
Entries = Callable[[int, int], Iterable[Recorded]]
"""Gives the entries of a ledger from an index on and before another."""


@dataclass(frozen=True)
class Usage:
    """What one agent has used."""

    bytes_up: int = 0
    bytes_down: int = 0
    seconds: float = 0.0
    """Of computing."""

    def __sub__(self, earlier: Usage) -> Usage:
        return Usage(
            self.bytes_up - earlier.bytes_up,
            self.bytes_down - earlier.bytes_down,
            self.seconds - earlier.seconds,
        )


@dataclass(frozen=True)
class ProxyBytes:
    """What a proxy's transport received in a stage."""

    gradients: int
    """From devices, on its own branch."""
    models: int
    """From the coordinator: orders, and the models to score."""


@dataclass(frozen=True)
class StageMeasures:
    """What the ledger does not tell of a stage."""

    there: Collection[DeviceId]
    """Devices that were there and were asked."""
    usage: Mapping[DeviceId, Usage]
    """Of agents, in this stage; of those that are missing, nothing."""
    arrived_ns: Mapping[DeviceId, int]
    """When the stage's data had reached each device, by the fleet's clock, where that is known."""
    seconds: Mapping[str, float]
    """Wall time by phase, with their total."""
    peak_memory_mib: float
    notes: tuple[str, ...] = ()
    rounds: tuple[RoundRecord, ...] = ()
    proxy: ProxyBytes | None = None
    """None where nobody counted them."""
    accuracy_on_devices: float | None = None
    """Share of right answers that devices told of; None where they have no test images."""


@dataclass
class _Gathered:
    """What the entries of one stage told."""

    trained: dict[tuple[DeviceId, int], int] = field(default_factory=dict)
    """Samples of each device's last answer to a round of a stage."""
    words_ns: dict[tuple[DeviceId, int], int] = field(default_factory=dict)
    """When each device last said something of a stage that was accepted."""
    reports: list[tuple[DeviceId, TransitionReported, int]] = field(default_factory=list)
    weight_bytes: int = 0
    scored: int = 0


@dataclass(frozen=True)
class _Stage:
    """A stage of the plan as the ledger has it."""

    numbers: tuple[int, ...]
    opened_ns: int
    gained: Counter[DeviceId]
    """Samples that its model has of each device, and the model before had not."""


class Recorder:
    """Reads the ledger of one plan once, stage after stage, and makes their records."""

    def __init__(self, plan: FleetPlan, entries: Entries) -> None:
        self._plan = plan
        self._entries = entries
        self._size = 0
        """Entries that were read."""
        self._gathered = _Gathered()
        self._held = HeldParts()
        """Contributions that are in the model of the stage that was read last."""
        self._learned: dict[int, Counter[DeviceId]] = {0: Counter()}
        """Samples of each device in the model of the stage that was read last."""
        self._stored: dict[DeviceId, int] = {}
        self._parcels, self._novelty_checks = KindTrafficCount(), NoveltyLog()

    def record(self, state: State, stage: StagePlan, measured: StageMeasures) -> StageRecord:
        """Return the record of a stage that is closed in `state`, and is later than those before.

        Raises `EngineError` where the ledger has no model of it.
        """
        numbers, model = ledger_stages(state, self._plan, stage), model_of(state, self._plan, stage)
        if not numbers or model is None or model.exported is None:
            raise EngineError(f"stage {stage.number}: the ledger has no model of it")
        opened = state.stages.by_number[numbers[0]]
        kept = _Stage(numbers, opened.opened_ns, self._read(state, stage, model))
        begin_ns = min([opened.opened_ns, *measured.arrived_ns.values()])
        return StageRecord(
            stage=stage.number,
            class_names=self._plan.names(stage.classes),
            opened_by=opened.opened_by,
            version=model.solved.version,
            model_classes=model.solved.class_names,
            aggregate=model.solved.aggregate,
            head=model.solved.head,
            manifest=model.exported.manifest.digest,
            fleet_seconds=seconds_between(begin_ns, model.solved_ns),
            seconds=dict(measured.seconds),
            peak_memory_mib=measured.peak_memory_mib,
            devices={
                name: self._device(name, met, kept, measured) for name, met in stage.devices.items()
            },
            transitions=tuple(
                _transition(*report, stage.devices.get(report[0]), measured)
                for report in self._gathered.reports
            ),
            rounds=measured.rounds,
            novelty_checks=self._novelty_checks.of(numbers),
            proxy=self._proxy(state, measured),
            contributions=self._contributions(state, model),
            accuracy_on_devices=measured.accuracy_on_devices,
            notes=(*stage.notes, *measured.notes),
        )

    def _read(self, state: State, stage: StagePlan, model: ModelVersion) -> Counter[DeviceId]:
        """Read to the end of a stage; return what its model has of each device more than before."""
        if stage.number - 1 not in self._learned:  # a former run recorded it
            last = self._plan.stages[stage.number - 2]
            self._read_one(state, last, model_of(state, self._plan, last))
        before = self._learned[stage.number - 1]
        self._read_one(state, stage, model)
        return self._learned[stage.number] - before

    def _read_one(self, state: State, stage: StagePlan, model: ModelVersion | None) -> None:
        closed = closed_index(state, ledger_stages(state, self._plan, stage))
        end = 1 + max(closed, -1 if model is None else model.solved_index)
        self._gathered = _Gathered()
        for body, device, time_ns in self._entries(self._size, end):
            self._take(body, device, time_ns)
            self._size += 1
        self._learned = {stage.number: self._in(model)}

    def _in(self, model: ModelVersion | None) -> Counter[DeviceId]:
        """Return the samples of each device that a model was solved from."""
        found: Counter[DeviceId] = Counter()
        if model is None or model.solved.weights_index is not None:
            return found
        held, solved = self._held, model.solved
        read = self._entries(held.size, solved.ledger_size)
        for index, (body, device, time_ns) in enumerate(read, start=held.size):
            held.apply_body(body, EntryContext(index, device, time_ns))
        for index, item in held.counted.items():
            if held.counted.is_summed(index, solved.lineage):
                found[item.device] += sum(item.samples.values())
        return found

    def _contributions(self, state: State, model: ModelVersion) -> int:
        """Count what is in the model; of a network, the answers of its last round.

        A network that was imported with trained weights has none yet.
        """
        if model.lineage is not None and model.lineage.in_rounds:
            assert model.solved.weights_index is not None
            return state.rounds.answers_in(model.solved.weights_index)
        return model.solved.contributions

    def _take(self, body: EntryBody, device: DeviceId | None, time_ns: int) -> None:
        self._parcels.apply(body, device)
        self._novelty_checks.apply(body, device)
        if isinstance(body, OldModelChosen):
            self._gathered.scored += body.answer.newest is not None
        elif device is not None:
            self._take_word(body, device, time_ns)

    def _take_word(self, body: EntryBody, device: DeviceId, time_ns: int) -> None:
        gathered = self._gathered
        match body:
            case ContributionAccepted():
                self._take_contribution(body, device)
                gathered.words_ns[device, body.key.stage] = time_ns
            case ContributionWithdrawn():
                gathered.words_ns[device, body.key.stage] = time_ns
            case NothingReported():
                gathered.words_ns[device, body.stage] = time_ns
            case TransitionReported():
                gathered.reports.append((device, body, time_ns))

    def _take_contribution(self, body: ContributionAccepted, device: DeviceId) -> None:
        if body.answer is not None:
            self._stored[device] = body.answer.stored_samples
            self._gathered.weight_bytes += body.payload_bytes
        if body.round is not None:
            self._gathered.trained[device, body.key.stage] = sum(body.samples.values())

    def _device(
        self,
        name: DeviceId,
        met: DeviceStage,
        stage: _Stage,
        measured: StageMeasures,
    ) -> DeviceRecord:
        gathered, used = self._gathered, measured.usage.get(name, Usage())
        keys = [(name, number) for number in stage.numbers]
        words_ns = [gathered.words_ns[key] for key in keys if key in gathered.words_ns]
        trained = [gathered.trained[key] for key in keys if key in gathered.trained]
        carried, gained = self._parcels.of(name, stage.numbers), stage.gained[name]
        answered = seconds_between(stage.opened_ns, max(words_ns)) if words_ns else None
        return DeviceRecord(
            group=met.group,
            online=name in measured.there,
            bytes_up=used.bytes_up,
            bytes_down=used.bytes_down,
            compute_seconds=used.seconds,
            arrived_samples=len(met.indices),
            counted_samples=gained or (trained[-1] if trained else 0),
            stored_samples=self._stored.get(name, 0),
            sent=dict(carried.sent),
            received=dict(carried.received),
            shared_images=carried.shared_images,
            answered_seconds=answered,
        )

    def _proxy(self, state: State, measured: StageMeasures) -> ProxyRecord | None:
        if state.lineages.with_proxy is None:
            return None
        received = measured.proxy
        return ProxyRecord(
            gradient_bytes=None if received is None else received.gradients,
            weight_bytes=self._gathered.weight_bytes,
            scored=self._gathered.scored,
            model_bytes=None if received is None else received.models,
        )


def seconds_between(begin_ns: int, end_ns: int) -> float:
    """Return the seconds from one moment to another, 0 where it is earlier."""
    return max(0, end_ns - begin_ns) / NANOSECONDS


def _transition(
    device: DeviceId,
    body: TransitionReported,
    time_ns: int,
    met: DeviceStage | None,
    measured: StageMeasures,
) -> TransitionRecord:
    """Return what a report comes to, given what the device met in the stage.

    Where nobody knows any more when its images came, they had come before it.
    """
    since_ns = measured.arrived_ns.get(device, time_ns)
    images = len(met.indices) if met is not None and since_ns <= time_ns else 0
    return TransitionRecord(
        device=device,
        why=body.why,
        seconds=seconds_between(since_ns, time_ns),
        is_new=images > 0,
        images=images,
    )
