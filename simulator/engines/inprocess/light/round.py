"""One round of light agents: answers are trained, summed, packed, recorded, and dropped.

The order of things for an answer: its integers are added to the exact sum, its bytes are packed and
hashed, what is said of it goes to the coordinator's core with others, and nothing of it is kept.
With the last group the round is closed and averaged from the sum.

A run that was killed in a round has its answers in the ledger and no longer in a sum. They are
trained again, from the memories before the round, and the coordinator knows those that it has.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from math import isfinite
from typing import NamedTuple

from coordinator.core import inputs
from coordinator.core.entries import RoundOpened
from coordinator.core.requests import AverageRound
from coordinator.workshop import Finished
from device_agent.core.telling import problem
from learning.errors import LearningError
from methods.registry import card
from methods.training_half import Answer, Summing
from schemas.contributions import Contribution, Nothing, PartKey
from schemas.envelope import Sender
from schemas.errors import FleetledgerError
from schemas.message import Message
from schemas.rounds import RoundAnswer
from schemas.values import BootId, ClassName, DeviceId, Digest
from simulator.engines.inprocess.light.cohort import Cohort, Declined
from simulator.engines.inprocess.light.ground import Ground
from simulator.engines.inprocess.light.packing import Packed
from simulator.errors import EngineError

GROUP_INPUTS = 4096
"""What is committed together."""
_PACKED_ANSWERS = 32
_PACKED_BYTES = 4 << 20
"""Bodies that wait to be packed together."""


class _Told(NamedTuple):
    """An answer without its payload and its memory."""

    device: DeviceId
    per_class: dict[ClassName, int]
    samples: int
    steps: int
    loss: float | None
    stored_samples: int


class LightRound:
    """Carries out one round that is open, or averages again one that was closed."""

    def __init__(self, ground: Ground, opened: RoundOpened) -> None:
        network = ground.coordinator.state.network
        assert network is not None
        self._ground = ground
        self._opened = opened
        self._cohort = Cohort(ground, opened, opened.cohort[0])
        self._key = PartKey(stage=opened.stage, part=opened.number)
        self._method, self._lineage = network.method, network.digest
        self._kind = card(network.method).kind_of(opened.phase)
        self._sum: Summing = ground.coordinator.maker.networks.summing(network, opened)
        self._summed: list[Digest] = []
        self._lot: list[bytes] = []
        self._lot_bytes = 0
        self._lot_told: list[_Told] = []
        self._packing: deque[list[_Told]] = deque()
        self._sizes: dict[Digest, int] = {}
        self._done = 0

    def carry_out(self) -> None:
        """Train everybody who has not said that there is nothing, record, close and average."""
        ground, opened = self._ground, self._opened
        current = ground.coordinator.state.rounds[opened.number]
        quiet = current.nothing | current.unable
        devices = [device for device in opened.cohort if device not in quiet]
        ground.traffic.begin(self._cohort.assignment, opened.cohort[0], ground.sent_ms())
        ground.clock.now += ground.hall.seconds
        ground.coordinator.average = self.average
        # Two looks: the first closes the round, the second has it averaged.
        happenings: Iterator[inputs.Input] = chain(
            self._train(devices), (inputs.Tick(), inputs.Tick())
        )
        first = next(happenings, None)
        while first is not None:
            group = chain((first,), islice(happenings, GROUP_INPUTS - 1))
            ground.coordinator.take(group, pruned=self._sizes)
            self._sizes.clear()
            first = next(happenings, None)
        ground.memories.settle()

    def average(self, request: AverageRound) -> Finished:
        """Return the mean of the answers in the ledger, which must be those of the sum."""
        networks = self._ground.coordinator.maker.networks
        if sorted(item.payload for item in request.inputs) != sorted(self._summed):
            reason = "answers: a former run's, and training again gave other ones"
            return Finished(inputs.RoundNotAveraged(request.opened.number, reason))
        return networks.average(request, self._sum)

    def sum_again(self, devices: Sequence[DeviceId]) -> None:
        """Add the answers of a closed round again; they are in the ledger already."""
        deque(self._train(devices), maxlen=0)

    def _train(self, devices: Sequence[DeviceId]) -> Iterator[inputs.Input]:
        """Yield what the coordinator is told, while the devices that follow are trained."""
        for device, outcome in self._cohort.train(devices):
            self._ground.traffic.asked(device)
            if isinstance(outcome, Declined):
                yield from self._decline(device, outcome.reason)
            elif self._take(device, outcome):
                self._pack()
                yield from self._collect()
        self._pack()
        yield from self._collect(wait=True)

    def _take(self, device: DeviceId, answer: Answer) -> bool:
        """Put an answer into the lot; return whether that is full."""
        if answer.memory is not None:
            self._ground.memories.write(device, self._opened.number, answer.memory)
        samples = sum(answer.samples.values())
        try:
            self._sum.add(answer.payload, samples)
        except (FleetledgerError, LearningError) as error:
            raise EngineError(f"{device}: {error}") from error
        self._lot.append(answer.payload)
        self._lot_bytes += len(answer.payload)
        self._lot_told.append(
            _Told(device, answer.samples, samples, answer.steps, answer.loss, answer.stored_samples)
        )
        return len(self._lot) == _PACKED_ANSWERS or self._lot_bytes >= _PACKED_BYTES

    def _pack(self) -> None:
        self._ground.packer.pack(self._lot)
        self._packing.append(self._lot_told)
        self._lot, self._lot_told, self._lot_bytes = [], [], 0

    def _collect(self, *, wait: bool = False) -> Iterator[inputs.Input]:
        """Yield the answers of lots that are packed; of all lots, if it waits."""
        packer = self._ground.packer
        while self._packing and (wait or packer.is_ready):
            told = self._packing.popleft()
            yield from self._words(told, packer.take())
            self._done += len(told)
            self._ground.progress(self._done)

    def _words(self, told: Iterable[_Told], packed: Iterable[Packed]) -> Iterator[inputs.Input]:
        traffic, sent_ms = self._ground.traffic, self._ground.sent_ms()
        for one, payload in zip(told, packed, strict=True):
            contribution = self._contribution(one, payload)
            traffic.answered(one.device, contribution, sent_ms)
            self._summed.append(payload.digest)
            self._sizes[payload.digest] = payload.size
            yield inputs.PayloadStored(one.device, contribution, waits=False)

    def _contribution(self, told: _Told, payload: Packed) -> Contribution:
        return Contribution(
            key=self._key,
            revision=0,
            payload_kind=self._kind,
            method=self._method,
            lineage=self._lineage,
            payload=payload.digest,
            payload_bytes=payload.size,
            offer=payload.offer,
            samples=told.per_class,
            round=RoundAnswer(
                number=self._opened.number,
                phase=self._opened.phase,
                samples=told.samples,
                steps=told.steps,
                loss=told.loss if told.loss is not None and isfinite(told.loss) else None,
                seconds=self._ground.hall.seconds,  # of the fleet, so that equal runs are equal
                stored_samples=told.stored_samples,
            ),
        )

    def _decline(self, device: DeviceId, reason: str) -> Iterator[inputs.Input]:
        """Say, as an agent does, that there is no answer, and why if it is not for want of data."""
        ground, number = self._ground, self._opened.number
        if reason:
            text = f"round {number}: {reason}"
            yield letter(ground, device, problem("training", text))
        nothing = Nothing(stage=self._opened.stage, round=number, reason=reason[:500])
        yield letter(ground, device, nothing)
        ground.traffic.declined(device, nothing, ground.sent_ms())


def letter(
    ground: Ground, device: DeviceId, message: Message, boot: BootId | None = None
) -> inputs.DeviceMessage:
    """Return a message as it comes from a device."""
    known = ground.coordinator.live.device(device).boot
    own = boot or known
    assert own is not None, "devices that are away say nothing"
    sender = Sender(ground.coordinator.fleet, device, own)
    return inputs.DeviceMessage(device, sender.seal(message, sent_ms=ground.sent_ms()))
