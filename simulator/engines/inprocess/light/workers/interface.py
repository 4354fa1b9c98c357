"""What the engine asks of workers, wherever they run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeVar

from fleetledger.methods.training import LocalData, Partial
from fleetledger.schemas.values import DeviceId, Digest
from fleetledger.simulator.engines.inprocess.light.batches import Done
from fleetledger.simulator.engines.inprocess.light.holdings import HeldSamples, TrainInputs
from fleetledger.simulator.engines.inprocess.light.task import RoundTask

Result_co = TypeVar("Result_co", covariant=True)


class WorkerLostError(Exception):
    """A worker has ended before it gave what it was asked for."""


class LotMember(NamedTuple):
    """A device to be trained, and what it has."""

    device: DeviceId
    samples: HeldSamples | LocalData | None
    """Which of the shared inputs it holds, or its data where they are not shared; None for none."""
    memory: Digest | None
    """Of what it remembers, which lies in the store of memories."""


@dataclass(frozen=True)
class TrainedLot:
    """What came of a lot, and the seconds that it took."""

    done: Sequence[Done]
    seconds: float


class Pending(Protocol[Result_co]):
    """What a worker was asked for."""

    def is_ready(self) -> bool:
        """Whether `result` need not wait."""

    def result(self) -> Result_co:
        """Wait for it; raise `WorkerLostError`, or the `EngineError` that the worker met."""


class Worker(Protocol):
    """A worker, as the engine sees it: it does one thing after the other."""

    is_lost: bool
    """Whether something that it was asked for was lost with it."""

    def is_there(self) -> bool:
        """Whether it has come so far that it can train."""

    def wait(self) -> None:
        """Wait until it is there; raise `WorkerLostError`."""

    def train(self, lot: Sequence[LotMember]) -> Pending[TrainedLot]:
        """Have it train a lot of the round that it was given last."""


class Workers(Protocol):
    """All workers of a run."""

    engine_trains: bool
    """Whether the engine's process is to train while nobody else has time."""

    @property
    def everybody(self) -> Sequence[Worker]:
        """All of them."""

    def share(self, inputs: TrainInputs) -> None:
        """Let all workers have the inputs of all training samples, before the first round."""

    def begin(self, worker: Worker, task: RoundTask) -> None:
        """Let a worker begin with a round, and an empty sum."""

    def sums(self, workers: Sequence[Worker]) -> Sequence[Pending[Partial]]:
        """Have workers add up what they added in this round; one sum for each machine at least."""

    def replace(self, worker: Worker) -> Worker:
        """Start another in the place of a worker that was lost."""

    def close(self) -> None:
        """End them; what they do now, nobody waits for."""
