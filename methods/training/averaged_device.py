"""The device side of methods whose devices answer with weights that are averaged.

What is answered is said apart from the update that carries it, so that whoever trained many devices
on one accelerator can round their answers there, all at once. Nothing here imports torch.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fleetledger.learning.errors import LearningError
from fleetledger.methods.errors import MethodError
from fleetledger.methods.training.client_updates import UpdateFrame
from fleetledger.methods.training.exchange import ClientUpdate, FitJob
from fleetledger.methods.training.sides import Assignment, State, TrainingDevice

if TYPE_CHECKING:
    from torch import Tensor

    from fleetledger.learning.training.work import Trained


@dataclass(frozen=True, eq=False)
class Answer:
    """The weights that a device answers with, where they were trained, and their form."""

    frame: UpdateFrame
    weights: Mapping[str, Tensor]
    """Parameters and buffers by name."""
    noise_seed: bytes = b""
    """Of the device's own noise, where its answers have some."""

    def encode(self) -> bytes:
        """Return it as a payload; raise `MethodError` where training left the numbers."""
        from fleetledger.learning.networks.conversion import to_arrays  # noqa: PLC0415 - needs torch

        try:
            return self.frame.encode(to_arrays(self.weights), self.noise_seed)
        except LearningError as error:
            raise MethodError(f"training: {error}") from error


class AveragedDevice(TrainingDevice[Assignment, State]):
    """Answers with weights: a method says which, and what goes with them."""

    @abstractmethod
    def answer(self, assignment: Assignment, job: FitJob[State], trained: Trained) -> Answer:
        """Return the weights to answer with; devices that were sent the same have equal frames."""

    @abstractmethod
    def update(
        self, assignment: Assignment, job: FitJob[State], trained: Trained, payload: bytes
    ) -> ClientUpdate:
        """Return the update that carries the answer as `payload`; raise `MethodError`."""

    def finish(self, assignment: Assignment, job: FitJob[State], trained: Trained) -> ClientUpdate:
        """Return the update; raise `MethodError` where training left the numbers."""
        payload = self.answer(assignment, job, trained).encode()
        return self.update(assignment, job, trained, payload)
