"""Workers on Ray: actors on this machine, or on all machines of a cluster.

Inputs of samples and the task of a round are shared objects, once for each machine. Sums are joined
on the machine where they were made, so that the engine gets one from each machine, however many
workers and devices there are.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import Any, TypeVar

from fleetledger.methods.training.exchange import Partial
from fleetledger.runtime.errors import FleetledgerError
from fleetledger.runtime.registry import modules_for_children
from fleetledger.simulator.engines.inprocess.light.cohort import CohortResources
from fleetledger.simulator.engines.inprocess.light.workers.lots import Worker, WorkerLostError
from fleetledger.simulator.errors import EngineError
from fleetledger.simulator.ray_connection import LOCAL, RayCluster
from fleetledger.simulator.scenario.sections import EngineSettings

Result = TypeVar("Result")


class RayPool:
    """A `WorkerPool` on a cluster, whose workers keep what they are asked until they are there."""

    engine_trains = False

    def __init__(self, place: CohortResources, engine: EngineSettings) -> None:
        """Raise `EngineError` where there is no cluster, or one that is too small."""
        from fleetledger.simulator.engines.inprocess.light.workers.lot_trainer import (  # noqa: PLC0415 - torch
            LotTrainer,
        )

        self._workers = max(1, engine.workers)
        room = math.ceil(self._workers * engine.worker_cpus)
        self._cluster = RayCluster(engine.address or LOCAL, room)
        self._ray = self._cluster.ray
        asked = {"CPU": engine.worker_cpus, "GPU": engine.worker_gpus}
        try:
            self._check_room(asked)
        except BaseException:
            self._cluster.close()
            raise
        self._kind = self._ray.remote(LotTrainer).options(
            num_cpus=asked["CPU"], num_gpus=asked["GPU"], scheduling_strategy="SPREAD"
        )
        trainers = replace(place.trainers, device="cuda" if engine.worker_gpus else "cpu")
        self._given = (replace(place, trainers=trainers), modules_for_children())

    def start(self) -> Worker:
        """Start an actor; they are spread over the machines."""
        actor = self._kind.remote(*self._given)
        return Worker(actor, actor.__ray_call__.remote(_node).future())

    def share(self, value: Any) -> Any:  # noqa: ANN401 - a task, or the inputs of all samples
        """Return an object that lies once on each machine."""
        return self._ray.put(value)

    def ask(self, worker: Worker, method: str, *given: Any) -> Future[Any]:  # noqa: ANN401
        """Have the actor call one of its methods."""
        asked: Future[Any] = getattr(worker.handle, method).remote(*given).future()
        return asked

    def sums(self, workers: Sequence[Worker]) -> Sequence[Future[Partial]]:
        """Return one sum for each machine: the first worker there joins those of the others."""
        there: defaultdict[str, list[Worker]] = defaultdict(list)
        for worker in workers:
            there[worker.started.result()].append(worker)
        return [
            self.ask(first, "joined", *(one.handle.partial.remote() for one in others))
            for first, *others in there.values()
        ]

    def result(self, asked: Future[Result]) -> Result:
        """Wait for it."""
        errors = self._ray.exceptions
        try:
            return asked.result()
        except errors.RayTaskError as error:
            cause = error.cause
            if isinstance(cause, FleetledgerError):
                raise EngineError(str(cause)) from error
            if isinstance(cause, errors.RayError):  # a sum that was to be joined is lost
                raise WorkerLostError(str(cause)) from error
            raise
        except errors.RayError as error:
            raise WorkerLostError(str(error)) from error

    def end(self, worker: Worker) -> None:
        """End an actor."""
        self._ray.kill(worker.handle)

    def close(self) -> None:
        """End the cluster if it was started with the run."""
        self._cluster.close()

    def _check_room(self, asked: dict[str, float]) -> None:
        """Refuse more workers than the cluster will ever have room for."""
        has = self._ray.cluster_resources()
        for resource, each in asked.items():
            if each * self._workers > has.get(resource, 0.0):
                raise EngineError(
                    f"engine.workers: {self._workers} of {each:g} {resource} each on a "
                    f"cluster with {has.get(resource, 0.0):g}; ask for fewer, or add machines"
                )


def _node(_trainer: object) -> str:
    """Return the machine that an actor is on, in its process."""
    import ray  # noqa: PLC0415 - of the extra `ray`

    return str(ray.get_runtime_context().get_node_id())
