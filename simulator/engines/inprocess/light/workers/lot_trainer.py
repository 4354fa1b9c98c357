"""What a worker does, in whichever process or thread it is."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack

import torch

import fleetledger.learning.training.engine  # noqa: F401 - before a lot is waited for
from fleetledger.device_agent.home.memory import quick_allocation
from fleetledger.learning.numerics.blas import numpy_on_one_thread
from fleetledger.learning.training.resident import Residence
from fleetledger.methods.training.exchange import Partial
from fleetledger.simulator.engines.inprocess.light.batches import Adding
from fleetledger.simulator.engines.inprocess.light.cohort import CohortResources, Member
from fleetledger.simulator.engines.inprocess.light.holdings import HeldSamples, TrainInputs
from fleetledger.simulator.engines.inprocess.light.task import RoundTask
from fleetledger.simulator.engines.inprocess.light.workers.lots import LotMember, TrainedLot
from fleetledger.simulator.virtual.stopwatch import Stopwatch


class LotTrainer:
    """Trains lots of one round after the other, and adds up their answers.

    It computes on one thread, as the engine does, so that it does not matter who trains whom.
    """

    def __init__(self, place: CohortResources, variables: Mapping[str, str] | None = None) -> None:
        """Find by the `variables` what decorators added in the engine's process.

        None is for a thread of the engine's process, which holds its libraries to one thread.
        """
        self._limited = ExitStack()
        torch.set_num_threads(1)
        if variables is not None:
            quick_allocation()
            self._limited.enter_context(numpy_on_one_thread())
            os.environ |= variables
        self._place = place
        self._task: RoundTask | None = None
        self._adding: Adding | None = None
        self._inputs: TrainInputs | None = None
        self._residence: Residence | None = None
        """The inputs on this worker's accelerator, where it has one and they fit."""

    def ready(self) -> None:
        """Say that it is there."""

    def begin(self, task: RoundTask, inputs: TrainInputs | None) -> None:
        """Begin with a round, and an empty sum; `inputs` are those of all training samples."""
        if self._inputs is None and inputs is not None:  # those of a run are always the same
            device = self._place.trainers.for_torch().device
            self._residence = Residence.of(inputs[:1], len(inputs), inputs.__getitem__, device)
        self._task, self._inputs = task, inputs
        self._adding = Adding(task, self._place, Stopwatch())

    def train(self, lot: Sequence[LotMember]) -> TrainedLot:
        """Train the devices of a lot; raise `EngineError` for what no later try makes better."""
        assert self._adding is not None, "lots are of rounds"
        began = time.perf_counter()
        done = self._adding.carry_out(map(self._member, lot))
        return TrainedLot(done, time.perf_counter() - began)

    def partial(self) -> Partial:
        """Return what was added in this round."""
        assert self._adding is not None, "sums are of rounds"
        return self._adding.total.partial()

    def joined(self, *others: Partial) -> Partial:
        """Return what was added in this round here and by others."""
        assert self._task is not None, "sums are of rounds"
        total = self._task.summing()
        for one in (self.partial(), *others):
            total.join(one)
        return total.partial()

    def _member(self, member: LotMember) -> Member:
        device, samples, memory = member
        if isinstance(samples, HeldSamples):
            assert self._inputs is not None, "who shares inputs says which"
            rows = samples.indices
            there = self._residence
            own = self._inputs[rows] if there is None else there.samples(rows)
            samples = samples.local_data(own)
        return Member(device, samples, memory)
