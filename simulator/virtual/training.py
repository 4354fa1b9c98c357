"""Where the devices of a world train: those that train at the same time are trained together.

Those that are only asked to look at their images do that here, too.

A device comes in with its order and gets its answer when the fixed time of its training is over.
The first answer that is due has everybody trained who has come in by then; what is computed does
not depend on who else is there, so no clock can tell. On an accelerator devices that were sent the
same look together, and their answers are rounded there.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeVar

from fleetledger.device_agent.core import inputs
from fleetledger.device_agent.core.inputs import Input
from fleetledger.device_agent.core.requests import Train
from fleetledger.device_agent.errors import AgentError
from fleetledger.device_agent.home.store.blobs import BlobFolder
from fleetledger.device_agent.models.training import (
    TrainingDone,
    TrainingSession,
    answered,
    begin,
    load_side,
    require_torch,
)
from fleetledger.device_agent.program.observation import check_novelty, observed
from fleetledger.learning.errors import LearningError
from fleetledger.methods.training.exchange import FitInstruction, LocalData
from fleetledger.runtime.errors import FleetledgerError
from fleetledger.schemas.values import Digest
from fleetledger.simulator.errors import EngineError
from fleetledger.simulator.virtual.answers import Declined, FinishedMember, Finishing
from fleetledger.simulator.virtual.calibrations import CalibrationFolder
from fleetledger.simulator.virtual.loop import Loop
from fleetledger.simulator.virtual.shared_inference import (
    AskedMember,
    number_observing,
    with_shared_inference,
)
from fleetledger.simulator.virtual.stopwatch import Stopwatch

if TYPE_CHECKING:
    from fleetledger.learning.training.settings import EngineName, StepsName, TrainingEngineSettings
    from fleetledger.learning.training.work import Trained
    from fleetledger.simulator.scenario.sections import EngineSettings

Who = TypeVar("Who", bound=Hashable)

_MEMORY_BYTES = 4 << 30
"""For the weights of the devices that are trained together."""
_COPIES = 4
"""Weights, velocities, gradients and the answer."""
_SHARED_FILES = 8


@dataclass(frozen=True, eq=False)
class Trainee:
    """A device with an order."""

    request: Train
    instruction: FitInstruction
    data: LocalData
    memory: bytes | None
    blobs: BlobFolder
    deliver: Callable[[Input, float], None]
    """Takes the answer, and the seconds that it took on this machine."""


@dataclass(frozen=True)
class TrainerPoolSettings:
    """How devices are trained, and how long that takes by their clock."""

    engine: EngineName | None = "loop"
    """None: `auto` on a GPU, and `loop` on the processor, where whoever knows the network may stack
    small ones (`engines.inprocess.light.training_lots`)."""
    device: str = "cpu"
    bfloat16: bool = False
    seconds: float = 10.0
    channels_last: bool = False
    tf32: bool | None = None
    steps: StepsName = "eager"
    stack_bytes: int | None = None

    @classmethod
    def of(cls, engine: EngineSettings) -> TrainerPoolSettings:
        """Return what a scenario says of training."""
        return cls(
            engine.training,
            engine.device,
            engine.bfloat16,
            engine.training_seconds,
            engine.channels_last,
            engine.tf32,
            engine.steps,
            None if engine.stack_mib is None else engine.stack_mib << 20,
        )

    @property
    def way(self) -> EngineName:
        """How devices are trained here; raises `EngineError` for a GPU that is not there."""
        if self.engine is not None:
            return self.engine
        return "loop" if torch_device(self.device) == "cpu" else "auto"

    def for_torch(self) -> TrainingEngineSettings:
        """Return what `learning.training` takes; raise `MissingError` without torch."""
        require_torch()
        from fleetledger.learning.training.settings import TrainingEngineSettings  # noqa: PLC0415 - needs torch

        return TrainingEngineSettings(
            self.way,
            torch_device(self.device),
            self.bfloat16,
            stack_bytes=self.stack_bytes,
            calibrations=CalibrationFolder.of_user(),
            channels_last=self.channels_last,
            tf32=self.tf32,
            steps=self.steps,
        )


class TrainerPool:
    """Trains the devices of one world."""

    def __init__(
        self,
        loop: Loop,
        stopwatch: Stopwatch,
        settings: TrainerPoolSettings,
        slowness: Mapping[str, float] = MappingProxyType({}),
    ) -> None:
        """`slowness` says by device how many times the usual seconds it trains, 1 by default."""
        self._loop = loop
        self._stopwatch = stopwatch
        self._settings = settings
        self._slowness = slowness
        self._waiting: list[Trainee] = []
        self._answers: dict[Trainee, tuple[Input, float]] = {}
        self._files: dict[Digest, bytes] = {}

    def read(self, digest: Digest, blobs: BlobFolder) -> bytes:
        """Return a file of a device; what many read is in memory once."""
        if digest not in self._files:
            while len(self._files) >= _SHARED_FILES:
                del self._files[next(iter(self._files))]
            self._files[digest] = blobs.read(digest)
        return self._files[digest]

    def enter(self, trainee: Trainee) -> None:
        """Train a device; it is told when the time of its training is over."""
        self._waiting.append(trainee)
        due = self._loop.clock.now + self._seconds(trainee)
        self._loop.at(due, lambda: self._leave(trainee))

    def _seconds(self, trainee: Trainee) -> float:
        return self._settings.seconds * self._slowness.get(trainee.instruction.device, 1.0)

    def _leave(self, trainee: Trainee) -> None:
        if trainee not in self._answers:
            with self._stopwatch.phase("training"):
                self._train_all()
        answer, seconds = self._answers.pop(trainee)
        trainee.deliver(answer, seconds)

    def _train_all(self) -> None:
        here, self._waiting = self._waiting, []
        for order in _by_order(here):
            if order[0].instruction.round.observes:
                self._look(order)
                continue
            at_once = number_at_once(order[0].instruction, self._settings)
            for start in range(0, len(order), at_once):
                self._answers |= self._trained(order[start : start + at_once])

    def _look(self, trainees: Sequence[Trainee]) -> None:
        """Have devices look with the fleet's model, which is all that they are asked for."""
        engine = self._settings.for_torch()
        at_once = number_observing(engine)
        with self._stopwatch.phase("looking"):
            for start in range(0, len(trainees), at_once):
                together = trainees[start : start + at_once]
                common = _with_shared_inference(together, engine)
                for trainee in together:
                    self._answers[trainee] = _looked(trainee, common)

    def _trained(self, trainees: Sequence[Trainee]) -> dict[Trainee, tuple[Input, float]]:
        clock = time.perf_counter
        began = clock()
        engine = self._settings.for_torch()
        common = _with_shared_inference(trainees, engine) if len(trainees) > 1 else engine
        begun = {trainee: _begin(trainee, common) for trainee in trainees}
        sessions = {one: session for one, session in begun.items() if session is not None}
        finished: dict[Trainee, FinishedMember] = {}
        if sessions:
            first = next(iter(sessions.values()))
            finishing = Finishing(first.side, first.assignment, engine.device, sums=False)
            finished = finishing.finished(carry_out(sessions, self._settings))
        answers = {one: self._answer(one, finished.get(one)) for one in trainees}
        share = (clock() - began) / len(trainees)
        return {one: (answer, share) for one, answer in answers.items()}

    def _answer(self, trainee: Trainee, finished: FinishedMember | None) -> Input:
        request = trainee.request
        answer = None if finished is None else finished.outcome
        if isinstance(answer, Declined):  # training left the numbers
            return inputs.TrainingFailed(request.job, answer.reason, hopeless=True)
        # Fleet time, so that equal runs send equal bytes.
        done = TrainingDone(answer, self._seconds(trainee))
        return answered(request, done, (), trainee.blobs)


def _by_order(trainees: Iterable[Trainee]) -> list[list[Trainee]]:
    """Return devices that were sent the same, together; in the order in which they came."""
    found: dict[Hashable, list[Trainee]] = {}
    for one in trainees:
        asked = one.instruction.round
        sent = (asked.weights.digest, *sorted(item.digest for item in asked.extras.values()))
        order = (one.request.assignment.method, asked.number, asked.phase, asked.observes, sent)
        found.setdefault(order, []).append(one)
    return list(found.values())


def _with_shared_inference(
    trainees: Sequence[Trainee], engine: TrainingEngineSettings
) -> TrainingEngineSettings:
    """Return the engine with the looks of devices that were sent the same; raise `EngineError`."""
    to = load_side(trainees[0].request.assignment)
    asked = [AskedMember(one.instruction, one.data, one.memory) for one in trainees]
    return with_shared_inference(to.side, to.assignment, asked, to.pictures, engine)


def carry_out(
    sessions: Mapping[Who, TrainingSession], settings: TrainerPoolSettings
) -> dict[Who, tuple[TrainingSession, Trained | None]]:
    """Return the last session of each, with what it trained; works that follow go together.

    Raises `EngineError` for work that the engine cannot train.
    """
    ended: dict[Who, tuple[TrainingSession, Trained | None]] = {}
    left = dict(sessions)
    while left:
        trained = _trained(left, settings)
        ended |= {one: (session, trained.get(one)) for one, session in left.items()}
        after = {one: session.after(trained.get(one)) for one, session in left.items()}
        left = {one: session for one, session in after.items() if session is not None}
    return ended


def carry_out_one(
    session: TrainingSession, settings: TrainerPoolSettings
) -> tuple[TrainingSession, Trained | None]:
    """Do the same for one device."""
    if session.job.work is None:
        return session, None
    return carry_out({"it": session}, settings)["it"]


def _trained(
    sessions: Mapping[Who, TrainingSession], settings: TrainerPoolSettings
) -> dict[Who, Trained]:
    jobs = {one: session.job.work for one, session in sessions.items()}
    works = {one: work for one, work in jobs.items() if work is not None}
    if not works:
        return {}
    from fleetledger.learning.training.engine import train  # noqa: PLC0415 - needs torch

    try:
        return dict(zip(works, train(list(works.values()), settings.for_torch()), strict=True))
    except LearningError as error:
        raise EngineError(f"engine.training: {error}") from error


def torch_device(asked: str) -> str:
    """Return torch's name of the device that a scenario asks for; raise `EngineError`."""
    from fleetledger.learning.training.devices import found_device  # noqa: PLC0415 - needs torch

    try:
        return found_device(asked)
    except LearningError as error:
        raise EngineError(f"engine.{error}") from error


def _begin(trainee: Trainee, engine: TrainingEngineSettings) -> TrainingSession | None:
    request = trainee.request
    try:
        return begin(request, trainee.instruction, trainee.data, trainee.memory, engine)
    except (AgentError, FleetledgerError, LearningError) as error:
        # A real agent would try again for ever; nothing would be another the next time.
        raise EngineError(f"{trainee.instruction.device}: {error}") from error


def _looked(trainee: Trainee, engine: TrainingEngineSettings) -> tuple[Input, float]:
    """Have a device look with the fleet's model, which is all that it is asked for."""
    began = time.perf_counter()
    request = trainee.request
    asked = (request.assignment, trainee.instruction, trainee.data, trainee.memory)
    try:
        seen = check_novelty(*asked, lambda: engine)
    except (AgentError, FleetledgerError, LearningError) as error:
        # A real agent would try again for ever; nothing would be another the next time.
        raise EngineError(f"{trainee.instruction.device}: {error}") from error
    return observed(request, seen, (), trainee.blobs), time.perf_counter() - began


def number_at_once(instruction: FitInstruction, settings: TrainerPoolSettings) -> int:
    """Return how many devices are trained together at most."""
    if settings.way == "loop":
        return 1  # one after the other, so only one needs to be in memory
    each = _COPIES * (len(instruction.weights) + sum(map(len, instruction.extras.values())))
    return max(1, _MEMORY_BYTES // max(1, each))
