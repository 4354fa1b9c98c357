"""Devices of a round, trained by the method's device side one after the other, or in stacks."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby, islice
from typing import TYPE_CHECKING, Any, NamedTuple

from fleetledger.coordinator.errors import BlobError
from fleetledger.coordinator.ledger.blobs import BlobStore
from fleetledger.device_agent.errors import AgentError
from fleetledger.device_agent.models.training import TrainingSession
from fleetledger.device_agent.program.observation import check_novelty
from fleetledger.learning.errors import LearningError
from fleetledger.methods.registry import training_device
from fleetledger.methods.training.exchange import FitInstruction, LocalData, Observed, Partial
from fleetledger.runtime.errors import FleetledgerError
from fleetledger.schemas.values import DeviceId, Digest
from fleetledger.simulator.engines.inprocess.light.holdings import HeldSamples
from fleetledger.simulator.engines.inprocess.light.task import RoundTask
from fleetledger.simulator.engines.inprocess.light.training_lots import training_lots
from fleetledger.simulator.errors import EngineError
from fleetledger.simulator.scenario.sections import PoisonSettings
from fleetledger.simulator.virtual.answers import Declined, Ended, FinishedMember, Finishing
from fleetledger.simulator.virtual.seeds import seeded_noise
from fleetledger.simulator.virtual.shared_inference import (
    AskedMember,
    number_observing,
    with_shared_inference,
)
from fleetledger.simulator.virtual.training import (
    TrainerPoolSettings,
    carry_out,
    carry_out_one,
    number_at_once,
)

if TYPE_CHECKING:
    from fleetledger.learning.networks.pictures import Pictures
    from fleetledger.learning.training.settings import TrainingEngineSettings
    from fleetledger.learning.training.work import Trained
    from fleetledger.schemas.assignments import Assignment


@dataclass(frozen=True)
class CohortResources:
    """Where devices are trained, in all rounds."""

    trainers: TrainerPoolSettings
    pictures: Pictures | None
    """How uint8 pictures become inputs; None where the data are features."""
    memories: str
    """The store of what devices remember: a folder, or a URL that all workers reach."""
    publishes: bool = False
    """Whether gradients may be kept for a proxy."""
    poisoned: PoisonSettings | None = None
    """Who answers with something else than was trained; None for nobody."""

    @cached_property
    def store(self) -> BlobStore:
        """The store of memories; raises `BlobError` where it cannot be opened."""
        return BlobStore(self.memories)

    def remembered(self, memory: Digest | None) -> bytes | None:
        """Return what a device remembers; raise `EngineError` where the store lacks it."""
        try:
            return None if memory is None else self.store.get(memory)
        except BlobError as error:
            raise EngineError(f"engine.store: {error}") from error


class Member(NamedTuple):
    """A device of the cohort."""

    device: DeviceId
    data: LocalData | None
    """What the order asks for; None where there is nothing."""
    memory: Digest | None
    """Of what it remembers, in the store of memories."""


@dataclass(frozen=True)
class DeviceHoldings:
    """Samples and memory of devices, as far as a round asks for them."""

    data: Callable[[DeviceId], LocalData | None]
    samples: Callable[[DeviceId], HeldSamples | LocalData | None]
    """The same, where inputs need not be with it."""
    memory: Callable[[DeviceId], Digest | None]

    def member(self, device: DeviceId) -> Member:
        """Return a device with what it has."""
        return Member(device, self.data(device), self.memory(device))


class TrainedMember(NamedTuple):
    """What came of one device, and the seconds that it took."""

    device: DeviceId
    finished: FinishedMember
    seconds: float


class ObservedMember(NamedTuple):
    """What came of a device that only looked, and the seconds that it took."""

    device: DeviceId
    seen: Observed | None
    """None where it has no images."""
    seconds: float


def check_members_novelty(
    task: RoundTask, members: Iterable[Member], place: CohortResources
) -> Iterator[ObservedMember]:
    """Have devices look at their images with the fleet's model; raise `EngineError`.

    On an accelerator some look together.
    """
    assignment, waiting = task.looking, iter(members)
    side = training_device(assignment.method)
    own, engine = side.read_assignment(assignment.settings), place.trainers.for_torch()
    while together := list(islice(waiting, number_observing(engine))):
        began = time.perf_counter()
        asked = [_asked_to_observe(task, member, place) for member in together]
        common = with_shared_inference(side, own, asked, place.pictures, engine)
        for one, member in zip(asked, together, strict=True):
            seen = None if one is None else _looked(assignment, one, common)
            yield ObservedMember(member.device, seen, time.perf_counter() - began)
            began = time.perf_counter()


def _asked_to_observe(
    task: RoundTask, member: Member, place: CohortResources
) -> AskedMember | None:
    if member.data is None:
        return None
    order = task.looking.round
    assert order is not None
    instruction = replace(task.instruction, device=member.device, round=order)
    return AskedMember(instruction, member.data, place.remembered(member.memory))


def _looked(
    assignment: Assignment, asked: AskedMember, engine: TrainingEngineSettings
) -> Observed | None:
    try:
        return check_novelty(assignment, *asked, lambda: engine)
    except (AgentError, FleetledgerError, LearningError) as error:
        raise EngineError(f"{asked.instruction.device}: {error}") from error


class Cohort:
    """Trains devices for one round."""

    def __init__(self, task: RoundTask, place: CohortResources) -> None:
        self._place = place
        self._side = training_device(task.assignment.method)
        self._own = self._side.read_assignment(task.assignment.settings)
        self._instruction = task.instruction
        fields = {**vars(task.instruction), "gives_gradients": place.publishes}
        self._fields: Mapping[str, Any] = fields
        self._engine = place.trainers.for_torch()
        self._lots = training_lots(task, place.trainers)
        sums = task.opened.robust is None  # else answers are bounded or ranked before
        self._finishing = Finishing(self._side, self._own, self._engine.device, sums=sums)

    def summed_there(self) -> Partial | None:
        """Return what an accelerator has summed since this was last asked; None for nothing."""
        return self._finishing.partial()

    def train(self, members: Iterable[Member]) -> Iterator[TrainedMember]:
        """Yield what comes of each device, in order.

        Raises `EngineError` for what no later try would make better.
        """
        trainers, lots = self._place.trainers, self._lots
        if lots is not None:
            trainers = replace(trainers, engine="lots")
            for _, lot in groupby(members, key=lambda member: lots.number(member.device)):
                yield from self._together(list(lot), trainers)
            return
        if trainers.way == "loop":
            yield from map(self._alone, members)
            return
        waiting = iter(members)
        at_once = number_at_once(self._instruction, trainers)
        while together := list(islice(waiting, at_once)):
            yield from self._together(together, trainers)

    def _alone(self, member: Member) -> TrainedMember:
        began = time.perf_counter()
        session = self._session(self._asked(member), self._engine)
        finished = FinishedMember(Declined())
        if session is not None:
            ended = carry_out_one(session, self._place.trainers)
            if self._place.poisoned is not None:
                ended = self._poisoned({member.device: ended})[member.device]
            finished = self._finishing.finished_one(*ended)
        return TrainedMember(member.device, finished, time.perf_counter() - began)

    def _together(
        self, members: Sequence[Member], trainers: TrainerPoolSettings
    ) -> Iterator[TrainedMember]:
        began = time.perf_counter()
        asked = [self._asked(member) for member in members]
        pictures = self._place.pictures
        engine = with_shared_inference(self._side, self._own, asked, pictures, self._engine)
        sessions = {
            member.device: self._session(one, engine)
            for member, one in zip(members, asked, strict=True)
        }
        begun = {one: session for one, session in sessions.items() if session is not None}
        ended = carry_out(begun, trainers)
        finished = self._finishing.finished(self._poisoned(ended))
        share = (time.perf_counter() - began) / len(members)
        for device in sessions:
            yield TrainedMember(device, finished.get(device) or FinishedMember(Declined()), share)

    def _poisoned(self, ended: Ended[DeviceId]) -> Ended[DeviceId]:
        """Return what devices trained, moved as they say who poison the fleet."""
        poison = self._place.poisoned
        if poison is None:
            return ended
        return {
            device: (session, _moved(session, trained, poison.factor))
            if trained is not None and poison.poisons(device)
            else (session, trained)
            for device, (session, trained) in ended.items()
        }

    def _asked(self, member: Member) -> AskedMember | None:
        device, data, memory = member
        if data is None:
            return None
        noise_seed = seeded_noise(self._instruction.round.seed, device)
        # `replace` sets each field by itself, which takes eight times as long.
        instruction = object.__new__(FitInstruction)
        vars(instruction).update(self._fields, device=device, noise_seed=noise_seed)
        return AskedMember(instruction, data, self._place.remembered(memory))

    def _session(
        self, asked: AskedMember | None, engine: TrainingEngineSettings
    ) -> TrainingSession | None:
        if asked is None:
            return None
        try:
            job = self._side.begin(self._own, *asked, self._place.pictures, engine)
        except (FleetledgerError, LearningError) as error:
            raise EngineError(f"{asked.instruction.device}: {error}") from error
        return None if job is None else TrainingSession(self._side, self._own, job)


def _moved(session: TrainingSession, trained: Trained, factor: float) -> Trained:
    """Return weights that have moved `factor` times as far as they were trained to."""
    assert session.job.work is not None, "it was trained"
    parameters = {
        name: start.to(trained.parameters[name]) * (1 - factor) + trained.parameters[name] * factor
        for name, start in session.job.work.parameters.items()
    }
    return replace(trained, parameters=parameters)
