"""Workers on Ray: actors on this machine, or on all machines of a cluster.

Inputs of samples and the task of a round are shared objects, once for each machine. Sums are joined
on the machine where they were made, so that the engine gets one from each machine, however many
workers and devices there are.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from fleetledger.methods.training import Partial
from fleetledger.schemas.count_words import count_of
from fleetledger.schemas.errors import FleetledgerError
from fleetledger.simulator.engines.inprocess.light.cohort import CohortResources
from fleetledger.simulator.engines.inprocess.light.holdings import TrainInputs
from fleetledger.simulator.engines.inprocess.light.task import RoundTask
from fleetledger.simulator.engines.inprocess.light.workers.interface import (
    LotMember,
    Pending,
    TrainedLot,
    Worker,
    WorkerLostError,
)
from fleetledger.simulator.errors import EngineError
from fleetledger.simulator.ray_connection import LOCAL, RayCluster

Result = TypeVar("Result")

_START_SECONDS = 300.0
"""Until all workers of a cluster must be there: other machines import torch, too."""
_MOST_STARTS = 3
"""Of a worker that ends before it is there."""


@dataclass(frozen=True)
class RaySettings:
    """What a scenario says of the cluster."""

    workers: int
    address: str | None = None
    """None: on this machine alone, started with the run."""
    cpus: float = 1.0
    """Of each worker."""
    gpus: float = 0.0
    store: str | None = None
    """Where devices' memories lie, if the scenario says it."""


class RayWorker:
    """A worker that is an actor."""

    def __init__(self, actor: Any, node: str) -> None:  # noqa: ANN401 - Ray makes the class
        self.actor = actor
        self.node = node
        """The machine that it is on."""
        self.is_lost = False

    def is_there(self) -> bool:
        """Say yes: an actor keeps what it is asked for until it is."""
        return True

    def wait(self) -> None:
        """Do nothing: it was waited for when the cluster was looked at."""

    def train(self, lot: Sequence[LotMember]) -> Pending[TrainedLot]:
        """Have it train a lot of the round that it was given last."""
        return _Promise(self.actor.train.remote(lot), self._lose)

    def _lose(self) -> None:
        self.is_lost = True


class RayWorkers:
    """The workers of a run on a cluster."""

    engine_trains = False

    def __init__(self, place: CohortResources, settings: RaySettings) -> None:
        """Start them; raise `EngineError` where there is no cluster, or one that is too small."""
        room = math.ceil(settings.workers * settings.cpus)
        self._cluster = RayCluster(settings.address or LOCAL, room)
        self._ray = self._cluster.ray
        self._settings = settings
        self._place = replace(
            place, trainers=replace(place.trainers, device="cuda" if settings.gpus else "cpu")
        )
        self._inputs: Any = None
        self._shared_task: tuple[RoundTask, Any] | None = None
        """The newest task, and the object that all machines have of it."""
        try:
            self._check_room()
            self._own = self._start(settings.workers)
            self._check_store()
        except BaseException:
            self._cluster.close()
            raise

    @property
    def everybody(self) -> Sequence[Worker]:
        """All of them."""
        return self._own

    @property
    def nodes(self) -> set[str]:
        """The machines that they are on."""
        return {worker.node for worker in self._own}

    def share(self, inputs: TrainInputs) -> None:
        """Let all machines have the inputs of all training samples."""
        self._inputs = self._ray.put(inputs)

    def begin(self, worker: Worker, task: RoundTask) -> None:
        """Let a worker begin with a round; what goes wrong, the next lot tells."""
        if self._shared_task is None or self._shared_task[0] is not task:
            self._shared_task = task, self._ray.put(replace(task))
        self._known(worker).actor.begin.remote(self._shared_task[1], self._inputs)

    def sums(self, workers: Sequence[Worker]) -> Sequence[Pending[Partial]]:
        """Return one sum for each machine: the first worker there joins those of the others."""
        there: defaultdict[str, list[RayWorker]] = defaultdict(list)
        for worker in map(self._known, workers):
            there[worker.node].append(worker)
        return [self._joined(*on_node) for on_node in there.values()]

    def replace(self, worker: Worker) -> Worker:
        """Start another in the place of one."""
        lost = self._known(worker)
        self._ray.kill(lost.actor)
        place = self._own.index(lost)
        (self._own[place],) = self._start(1)
        return self._own[place]

    def close(self) -> None:
        """End all of them, and the cluster if it was started with the run."""
        for worker in self._own:
            self._ray.kill(worker.actor)
        self._cluster.close()

    def _joined(self, first: RayWorker, *others: RayWorker) -> Pending[Partial]:
        partials = [one.actor.partial.remote() for one in others]

        def lose() -> None:
            """Note whose sum is lost; where nobody has ended, none of them can be trusted."""
            ended = [one for one in (first, *others) if not self._lives(one)]
            for one in ended or (first, *others):
                one.is_lost = True

        return _Promise(first.actor.joined.remote(*partials), lose)

    def _lives(self, worker: RayWorker) -> bool:
        try:
            self._ray.get(worker.actor.__ray_ready__.remote(), timeout=_START_SECONDS)
        except self._ray.exceptions.RayError:
            return False
        return True

    def _start(self, number: int) -> list[RayWorker]:
        """Start actors, spread over the machines, and wait until they are there."""
        from fleetledger.simulator.engines.inprocess.light.workers.training import (  # noqa: PLC0415 - torch
            LotTrainer,
            known_methods,
        )

        ray, settings = self._ray, self._settings
        kind = ray.remote(LotTrainer).options(
            num_cpus=settings.cpus, num_gpus=settings.gpus, scheduling_strategy="SPREAD"
        )
        begun = [kind.remote(self._place, *known_methods()) for _ in range(number)]
        started = []
        for first in begun:
            actor, node, attempts = first, self._node_of(first), 1
            while node is None:
                if attempts == _MOST_STARTS:
                    raise EngineError(
                        f"engine.workers: {attempts} ended at their start; look into the logs of "
                        "Ray, and whether the memory is full"
                    )
                actor = kind.remote(self._place, *known_methods())
                node, attempts = self._node_of(actor), attempts + 1
            started.append(RayWorker(actor, node))
        return started

    def _node_of(self, actor: Any) -> str | None:  # noqa: ANN401 - Ray's
        """Return the machine that an actor is on; None where it ended before it was there."""
        ray = self._ray
        try:
            return str(ray.get(actor.__ray_call__.remote(_node), timeout=_START_SECONDS))
        except ray.exceptions.GetTimeoutError as error:
            raise EngineError(
                f"engine.workers: one was not there after {_START_SECONDS:.0f} s; look at "
                "`ray status` whether the cluster has room for it"
            ) from error
        except ray.exceptions.RayActorError:
            return None

    def _check_room(self) -> None:
        """Refuse more workers than the cluster will ever have room for."""
        asked = {"CPU": self._settings.cpus, "GPU": self._settings.gpus}
        has = self._ray.cluster_resources()
        for resource, each in asked.items():
            if each * self._settings.workers > has.get(resource, 0.0):
                raise EngineError(
                    f"engine.workers: {self._settings.workers} of {each:g} {resource} each on a "
                    f"cluster with {has.get(resource, 0.0):g}; ask for fewer, or add machines"
                )

    def _check_store(self) -> None:
        if len(self.nodes) > 1 and self._settings.store is None:
            raise EngineError(
                "engine.store: not given, and the workers are on "
                f"{count_of(len(self.nodes), 'machine')}; give a URL or a folder that all of them "
                "reach, for what devices remember"
            )

    def _known(self, worker: Worker) -> RayWorker:
        return next(one for one in self._own if one is worker)


class _Promise(Generic[Result]):
    """What an actor was asked for; a `Pending`. `lose` notes that it was lost."""

    def __init__(self, asked: Any, lose: Callable[[], None]) -> None:  # noqa: ANN401 - Ray's
        self._future: Future[Result] = asked.future()
        self._lose = lose
        self.is_ready = self._future.done

    def result(self) -> Result:
        """Wait for it."""
        from ray.exceptions import RayError, RayTaskError  # noqa: PLC0415 - of the extra `ray`

        try:
            return self._future.result()
        except RayTaskError as error:
            cause = error.cause
            if isinstance(cause, FleetledgerError):
                raise EngineError(str(cause)) from error
            if isinstance(cause, RayError):  # a sum that was to be joined is lost
                self._lose()
                raise WorkerLostError(str(cause)) from error
            raise
        except RayError as error:
            self._lose()
            raise WorkerLostError(str(error)) from error


def _node(_trainer: object) -> str:
    """Return the machine that an actor is on, in its process."""
    import ray  # noqa: PLC0415 - of the extra `ray`

    return str(ray.get_runtime_context().get_node_id())
