"""Lots of devices: trained, added to the sum, hashed; what is said of them alone is kept."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple, Protocol

from fleetledger.learning.errors import LearningError
from fleetledger.methods.training.exchange import ClientUpdate, Summing
from fleetledger.runtime.errors import FleetledgerError
from fleetledger.schemas.rounds import Observation
from fleetledger.schemas.values import ClassName, DeviceId, Digest
from fleetledger.simulator.engines.inprocess.light.answer_hasher import (
    LARGE_BYTES,
    AnswerHasher,
    HashedAnswer,
    Turns,
    hashed,
)
from fleetledger.simulator.engines.inprocess.light.cohort import (
    Cohort,
    CohortResources,
    DeviceHoldings,
    Member,
)
from fleetledger.simulator.engines.inprocess.light.task import RoundTask
from fleetledger.simulator.errors import EngineError
from fleetledger.simulator.virtual.answers import Declined
from fleetledger.simulator.virtual.stopwatch import Stopwatch

_ANSWERS_AT_ONCE = 32
_BYTES_AT_ONCE = 4 << 20
"""Bodies that wait to be hashed together."""


class Said(NamedTuple):
    """An answer without its payload."""

    per_class: Mapping[ClassName, int]
    samples: int
    steps: int
    loss: float | None
    stored_samples: int
    memory: Digest | None
    """Of what the device remembers now, in the store of memories, if it is something new."""
    observation: Observation | None = None
    """What the device saw before it trained, of methods that look."""
    gradients: bytes | None = None
    """What the proxy gets."""


class Answered(NamedTuple):
    """An answer that is in the sum."""

    said: Said
    hashed: HashedAnswer


class Done(NamedTuple):
    """What came of one device, and the seconds that its training took."""

    device: DeviceId
    outcome: Answered | Declined
    seconds: float


class Answering(Protocol):
    """Has the devices of one round trained."""

    def begin(self, devices: Sequence[DeviceId]) -> None:
        """Take the devices in; others than this process may begin with them."""

    def answers(self) -> Iterator[Sequence[Done]]:
        """Yield what comes of the devices, some at a time, in their order.

        Raises `EngineError` for what no later try would make better.
        """

    def total(self) -> Summing:
        """Return the sum of all answers, when there are no more."""


class Added(NamedTuple):
    """What came of a device, before it is hashed."""

    device: DeviceId
    said: Said | Declined
    seconds: float


class Lot(NamedTuple):
    """Some devices, and the answers of those that have one."""

    added: list[Added]
    bodies: list[bytes]

    def done(self, hashed: Iterable[HashedAnswer]) -> list[Done]:
        """Return what came of the devices, with what is said of each body."""
        following = iter(hashed)
        return [
            Done(
                device,
                said if isinstance(said, Declined) else Answered(said, next(following)),
                seconds,
            )
            for device, said, seconds in self.added
        ]


class Adding:
    """Trains devices of a round, writes what they remember, and adds their answers.

    The stopwatch counts adding as `sums`, and answers that are hashed here as `hashing`.
    """

    def __init__(
        self,
        task: RoundTask,
        place: CohortResources,
        stopwatch: Stopwatch,
        turns: Turns | None = None,
    ) -> None:
        """With `turns` large answers are added there."""
        self.on_answer: Callable[[ClientUpdate], None] = lambda _answer: None
        """Told of every answer, which is not kept here."""
        self._cohort = Cohort(task, place)
        self._place = place
        self._stopwatch = stopwatch
        self._total = task.summing()
        self._turns = turns

    @property
    def total(self) -> Summing:
        """The sum of all answers so far; raises `EngineError` for what it does not hold."""
        with self._stopwatch.phase("sums"):
            if self._turns is not None:
                self._turns.wait()
            there = self._cohort.summed_there()
            try:
                if there is not None:
                    self._total.join(there)
            except (FleetledgerError, LearningError) as error:
                raise EngineError(f"answers: {error}") from error
        return self._total

    def lots(self, members: Iterable[Member]) -> Iterator[Lot]:
        """Yield what comes of devices, in order, some at a time; raise `EngineError`."""
        lot, unsummed, size = Lot([], []), list[tuple[DeviceId, ClientUpdate]](), 0
        for device, (outcome, is_summed), seconds in self._cohort.train(members):
            if isinstance(outcome, Declined):
                lot.added.append(Added(device, outcome, seconds))
            else:
                self.on_answer(outcome)
                if not is_summed:
                    unsummed.append((device, outcome))
                lot.added.append(Added(device, self._said(outcome), seconds))
                lot.bodies.append(outcome.payload)
                size += len(outcome.payload)
            if len(lot.added) == _ANSWERS_AT_ONCE or size >= _BYTES_AT_ONCE:
                self._add(unsummed)
                yield lot
                lot, unsummed, size = Lot([], []), [], 0
        self._add(unsummed)
        if lot.added:
            yield lot

    def carry_out(self, members: Iterable[Member]) -> list[Done]:
        """Train some devices and hash their answers."""
        done = []
        for lot in self.lots(members):
            with self._stopwatch.phase("hashing"):
                digests = list(map(hashed, lot.bodies))
            done += lot.done(digests)
        return done

    def _add(self, answers: Sequence[tuple[DeviceId, ClientUpdate]]) -> None:
        with self._stopwatch.phase("sums"):
            if self._turns is None:
                self._sum(answers)
            elif any(len(answer.payload) >= LARGE_BYTES for _, answer in answers):
                self._turns.do(partial(self._sum, answers))
            else:
                self._turns.wait()
                self._sum(answers)

    def _sum(self, answers: Sequence[tuple[DeviceId, ClientUpdate]]) -> None:
        for device, answer in answers:
            try:
                self._total.add(answer.payload, sum(answer.samples.values()))
            except (FleetledgerError, LearningError) as error:
                raise EngineError(f"{device}: {error}") from error

    def _said(self, answer: ClientUpdate) -> Said:
        memory, samples = None, sum(answer.samples.values())
        if answer.memory is not None:
            memory = self._place.store.put(answer.memory)
        loss, stored = answer.loss, answer.stored_samples
        seen, given = answer.observation, answer.gradients
        return Said(answer.samples, samples, answer.steps, loss, stored, memory, seen, given)


class AnsweredHere:
    """Trains in this process, while large answers are hashed beside it; an `Answering`."""

    def __init__(
        self,
        task: RoundTask,
        holdings: DeviceHoldings,
        place: CohortResources,
        hasher: AnswerHasher,
        stopwatch: Stopwatch,
    ) -> None:
        self._adding = Adding(task, place, stopwatch, hasher.summing)
        self._holdings = holdings
        self._hasher = hasher
        self._stopwatch = stopwatch
        self._devices: Sequence[DeviceId] = ()
        self._hashing: deque[Lot] = deque()
        """Lots without their bodies, which the hasher has."""

    def tell(self, on_answer: Callable[[ClientUpdate], None]) -> None:
        """Tell somebody of every answer."""
        self._adding.on_answer = on_answer

    def begin(self, devices: Sequence[DeviceId]) -> None:
        """Take the devices in."""
        self._devices = devices

    def answers(self) -> Iterator[Sequence[Done]]:
        """Yield what comes of the devices, lot by lot."""
        for lot in self._adding.lots(map(self._holdings.member, self._devices)):
            self._stopwatch.spent("training", sum(one.seconds for one in lot.added))
            self._hash(lot)
            yield from self._hashed(wait=False)
        yield from self._hashed(wait=True)

    def total(self) -> Summing:
        """Return the sum."""
        return self._adding.total

    def _hash(self, lot: Lot) -> None:
        with self._stopwatch.phase("hashing"):
            self._hasher.hash(lot.bodies)
        self._hashing.append(Lot(lot.added, []))

    def _hashed(self, *, wait: bool) -> Iterator[Sequence[Done]]:
        """Yield lots that are hashed; all of them, if it waits."""
        while self._hashing and (wait or self._hasher.is_ready):
            with self._stopwatch.phase("hashing"):
                hashed = self._hasher.take()
            yield self._hashing.popleft().done(hashed)
