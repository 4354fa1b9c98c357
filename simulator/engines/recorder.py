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
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from fleetledger.coordinator.core.state import State, read_entry
from fleetledger.coordinator.ledger.entries import Entry
from fleetledger.coordinator.ledger.reader import LedgerReader
from fleetledger.coordinator.models.held_parts import HeldParts
from fleetledger.coordinator.topics.contributions.entries import (
    ContributionAccepted,
    ContributionWithdrawn,
    NothingReported,
)
from fleetledger.coordinator.topics.models.state import ModelVersion
from fleetledger.coordinator.topics.proxy.entries import OldModelChosen
from fleetledger.coordinator.topics.stages.entries import TransitionReported
from fleetledger.schemas.contributions import Part
from fleetledger.schemas.reports import Transition
from fleetledger.schemas.rounds import TRAIN, Observation
from fleetledger.schemas.values import DeviceId
from fleetledger.simulator import records
from fleetledger.simulator.engines.fetched_files import IMAGES, FetchedFiles
from fleetledger.simulator.engines.stages import closed_index, ledger_stages, model_of
from fleetledger.simulator.errors import EngineError
from fleetledger.simulator.plan.fleet_plan import DeviceStage, FleetPlan, StagePlan

NANOSECONDS = 1_000_000_000
_READ = (
    ContributionAccepted,
    ContributionWithdrawn,
    NothingReported,
    TransitionReported,
    OldModelChosen,
)


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
    rounds: tuple[records.RoundRecord, ...] = ()
    proxy: ProxyBytes | None = None
    """None where nobody counted them."""
    accuracy_on_devices: float | None = None
    """Share of right answers that devices told of; None where they have no test images."""


@dataclass
class _Said:
    """What a device said of a stage."""

    last_ns: int | None = None
    """When its last word was accepted."""
    trained: int = 0
    """Samples of its last answer to a round."""
    sent: Counter[str] = field(default_factory=Counter)
    """Bytes of accepted payloads, by kind."""
    shared_images: int = 0


@dataclass
class _Span:
    """What the entries say between the end of the stage before and that of a stage."""

    numbers: tuple[int, ...]
    """Stages of the ledger that it is."""
    opened_ns: int
    stored: dict[DeviceId, int]
    """Exemplars of devices, as they last said; is brought up to date."""
    gained: Counter[DeviceId] = field(default_factory=Counter)
    """Samples that its model has of each device, and the model before had not."""
    received: Mapping[tuple[DeviceId, int], Counter[str]] = field(default_factory=dict)
    """Bytes of files that devices fetched for each stage of the ledger, by kind."""
    by_device: dict[DeviceId, _Said] = field(default_factory=dict)
    seen: list[tuple[int, DeviceId, Observation]] = field(default_factory=list)
    """By number of the round."""
    reports: list[tuple[DeviceId, Transition, int]] = field(default_factory=list)
    weight_bytes: int = 0
    scored: int = 0

    def take(self, entry: Entry) -> None:
        """Take in an entry of one of the kinds that are read."""
        body, device = read_entry(entry.kind, entry.body), entry.device
        if isinstance(body, OldModelChosen):
            self.scored += body.answer.newest is not None
            return
        assert device is not None, "a device said it"
        match body:
            case ContributionAccepted():
                self._hear(device, body.part.key.stage, entry.time_ns)
                self._accept(body.part, device)
            case ContributionWithdrawn():
                self._hear(device, body.withdrawal.key.stage, entry.time_ns)
            case NothingReported():
                self._hear(device, body.nothing.stage, entry.time_ns)
                self._see(device, body.nothing.round, body.nothing.observation)
            case TransitionReported():
                self.reports.append((device, body.transition, entry.time_ns))

    def _hear(self, device: DeviceId, stage: int, time_ns: int) -> None:
        if stage in self.numbers:
            self.by_device.setdefault(device, _Said()).last_ns = time_ns

    def _see(self, device: DeviceId, number: int | None, saw: Observation | None) -> None:
        if number is not None and saw is not None:
            self.seen.append((number, device, saw))

    def _accept(self, part: Part, device: DeviceId) -> None:
        answer = part.round
        if answer is not None:
            self.stored[device] = answer.stored_samples
            self.weight_bytes += part.payload_bytes
            self._see(device, answer.number, answer.observation)
        if part.key.stage not in self.numbers:
            return
        said = self.by_device[device]
        said.sent[part.payload_kind] += part.payload_bytes
        if part.payload_kind == IMAGES and answer is not None:
            said.shared_images += answer.samples
        if answer is not None:
            said.trained = sum(part.samples.values())


class Recorder:
    """Makes the records of one plan's stages, one after another."""

    def __init__(self, plan: FleetPlan, ledger: LedgerReader) -> None:
        self._plan = plan
        self._ledger = ledger
        self._last = self._end = 0
        """The stage that was read last, and where its entries end."""
        self._held = HeldParts()
        """Contributions that are in its model."""
        self._learned: Counter[DeviceId] = Counter()
        """Samples of each device that are in its model."""
        self._stored: dict[DeviceId, int] = {}
        self._fetched = FetchedFiles(ledger)

    def record(
        self, state: State, stage: StagePlan, measured: StageMeasures
    ) -> records.StageRecord:
        """Return the record of a stage that is closed in `state`, and is later than those before.

        Raises `EngineError` where the ledger has no model of it.
        """
        model = model_of(state, self._plan, stage)
        if not ledger_stages(state, self._plan, stage) or model is None or model.exported is None:
            raise EngineError(f"stage {stage.number}: the ledger has no model of it")
        if stage.number - 1 != self._last:  # a former run recorded it
            self._read(state, self._plan.stages[stage.number - 2])
        span = self._read(state, stage)
        return records.StageRecord(
            stage=stage.number,
            class_names=self._plan.names(stage.classes),
            opened_by=state.stages.by_number[span.numbers[0]].opened_by,
            version=model.solved.version,
            model_classes=model.solved.class_names,
            aggregate=model.solved.aggregate,
            head=model.solved.head,
            manifest=model.exported.manifest.digest,
            fleet_seconds=seconds_between(
                min([span.opened_ns, *measured.arrived_ns.values()]), model.solved_ns
            ),
            seconds=dict(measured.seconds),
            peak_memory_mib=measured.peak_memory_mib,
            devices={
                name: _device(name, met, span, measured) for name, met in stage.devices.items()
            },
            transitions=tuple(
                _transition(*report, stage.devices.get(report[0]), measured)
                for report in span.reports
            ),
            rounds=measured.rounds,
            novelty_checks=_novelty_checks(state, span),
            proxy=_proxy(state, span, measured.proxy),
            contributions=_contributions(state, model),
            accuracy_on_devices=measured.accuracy_on_devices,
            notes=(*stage.notes, *measured.notes),
        )

    def _read(self, state: State, stage: StagePlan) -> _Span:
        """Read on, to the end of a stage."""
        numbers, model = ledger_stages(state, self._plan, stage), model_of(state, self._plan, stage)
        solved = -1 if model is None else model.solved_index
        start, end = self._end, 1 + max(closed_index(state, numbers), solved)
        opened_ns = state.stages.by_number[numbers[0]].opened_ns if numbers else 0
        span = _Span(numbers, opened_ns, self._stored)
        for entry in self._ledger.find(*_READ, start=start, stop=end):
            span.take(entry)
        span.received = self._fetched.read(start, end)
        before, self._learned = self._learned, self._in(model)
        span.gained = self._learned - before
        self._last, self._end = stage.number, end
        return span

    def _in(self, model: ModelVersion | None) -> Counter[DeviceId]:
        """Return the samples of each device that a model was solved from."""
        found: Counter[DeviceId] = Counter()
        if model is None or model.solved.weights_index is not None:
            return found
        held, solved = self._held, model.solved
        held.follow(self._ledger, max(held.size, solved.ledger_size))
        for index, item in held.counted.items():
            if held.counted.is_summed(index, solved.lineage):
                found[item.device] += sum(item.samples.values())
        return found


def _contributions(state: State, model: ModelVersion) -> int:
    """Count what is in the model; of a network, the answers of its last round.

    A network that was imported with trained weights has none yet.
    """
    if model.lineage is not None and model.lineage.in_rounds:
        assert model.solved.weights_index is not None
        return state.rounds.answers_in(model.solved.weights_index)
    return model.solved.contributions


def _device(
    name: DeviceId, met: DeviceStage, span: _Span, measured: StageMeasures
) -> records.DeviceRecord:
    used, said = measured.usage.get(name, Usage()), span.by_device.get(name, _Said())
    received = (span.received.get((name, number), Counter()) for number in span.numbers)
    return records.DeviceRecord(
        group=met.group,
        online=name in measured.there,
        bytes_up=used.bytes_up,
        bytes_down=used.bytes_down,
        compute_seconds=used.seconds,
        arrived_samples=len(met.indices),
        counted_samples=span.gained[name] or said.trained,
        stored_samples=span.stored.get(name, 0),
        sent=dict(said.sent),
        received=dict(sum(received, Counter[str]())),
        shared_images=said.shared_images,
        answered_seconds=(
            None if said.last_ns is None else seconds_between(span.opened_ns, said.last_ns)
        ),
    )


def _novelty_checks(state: State, span: _Span) -> tuple[records.NoveltyCheckRecord, ...]:
    """Return what devices saw in the stage's rounds, by round and device.

    In which order answers of a round come is a matter of the clock.
    """
    places: dict[int, tuple[int, int]] = {}
    for stage in span.numbers:
        rounds = (facts for facts in state.rounds.facts.values() if facts.stage == stage)
        training = (facts.number for facts in rounds if facts.phase == TRAIN)
        places |= {number: (stage, place) for place, number in enumerate(training, start=1)}
    looks = [
        (*places[number], device, saw) for number, device, saw in span.seen if number in places
    ]
    return tuple(
        records.NoveltyCheckRecord(device=device, round=place, **saw.model_dump())
        for _, place, device, saw in sorted(looks, key=lambda look: look[:3])
    )


def _proxy(state: State, span: _Span, received: ProxyBytes | None) -> records.ProxyRecord | None:
    if state.lineages.with_proxy is None:
        return None
    return records.ProxyRecord(
        gradient_bytes=None if received is None else received.gradients,
        weight_bytes=span.weight_bytes,
        scored=span.scored,
        model_bytes=None if received is None else received.models,
    )


def seconds_between(begin_ns: int, end_ns: int) -> float:
    """Return the seconds from one moment to another, 0 where it is earlier."""
    return max(0, end_ns - begin_ns) / NANOSECONDS


def _transition(
    device: DeviceId,
    body: Transition,
    time_ns: int,
    met: DeviceStage | None,
    measured: StageMeasures,
) -> records.TransitionRecord:
    """Return what a report comes to, given what the device met in the stage.

    Where nobody knows any more when its images came, they had come before it.
    """
    since_ns = measured.arrived_ns.get(device, time_ns)
    images = len(met.indices) if met is not None and since_ns <= time_ns else 0
    return records.TransitionRecord(
        device=device,
        why=body.why,
        seconds=seconds_between(since_ns, time_ns),
        is_new=images > 0,
        images=images,
    )
