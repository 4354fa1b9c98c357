"""Echo on a device: what it was sent, and a tiny constant of its own; nothing is trained."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from benchmarks.speed.fleet_overhead.echo.messages import EchoAssignment, frame_of
from fleetledger.methods.errors import MethodError
from fleetledger.methods.training.client_updates import UpdateFrame
from fleetledger.methods.training.exchange import ClientUpdate, FitInstruction, FitJob, LocalData
from fleetledger.methods.training.round_cache import RoundCache
from fleetledger.methods.training.sides import TrainingDevice

if TYPE_CHECKING:
    from fleetledger.learning.networks.pictures import Pictures
    from fleetledger.learning.training.settings import TrainingEngineSettings
    from fleetledger.learning.training.work import Trained

STEP = 1e-4
_APART = 1e-6
"""Between the constants of two devices: equal answers would be stored once."""

State = tuple[UpdateFrame, np.float32]


class EchoDevice(TrainingDevice[EchoAssignment, State]):
    """Gives back what it was sent."""

    assignment_type = EchoAssignment

    def __init__(self) -> None:
        # Of the round: devices of one process share it.
        self._newest = RoundCache[UpdateFrame]()

    def begin(
        self,
        assignment: EchoAssignment,
        instruction: FitInstruction,
        data: LocalData,
        memory: bytes | None,
        pictures: Pictures | None,
        engine: TrainingEngineSettings | None = None,
    ) -> FitJob[State]:
        """Return nothing to train, and what was sent."""
        asked = instruction.round
        names = asked.weights_class_names, asked.class_names
        frame = self._newest(
            asked, assignment, lambda: frame_of(assignment, instruction.weights, *names)
        )
        step = np.float32(STEP + _APART * int(instruction.device.rpartition("-")[2]))
        held = data.class_names
        counts = {name: held.count(name) for name in dict.fromkeys(held)}
        return FitJob(None, counts, (frame, step))

    def measured(self, assignment: EchoAssignment, job: FitJob[State]) -> ClientUpdate:
        """Return the weights plus the constant."""
        frame, step = job.state
        moved = {name: array + step for name, array in frame.sent.items()}
        return ClientUpdate(frame.encode(moved), dict(job.samples), steps=1, loss=None)

    def finish(
        self, assignment: EchoAssignment, job: FitJob[State], trained: Trained
    ) -> ClientUpdate:
        """Nothing is ever trained."""
        raise MethodError("echo: trains nothing")


DEVICE = EchoDevice()
