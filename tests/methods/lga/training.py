"""Whole local rounds, and a fleet of one device that is about to learn its second task."""

from __future__ import annotations

from typing import Any

from fleetledger.learning.networks.pictures import Pictures
from fleetledger.learning.training.work import Work
from fleetledger.methods.lga.assignment import NEW_MODEL, LgaAssignment
from fleetledger.methods.lga.coordinator import COORDINATOR
from fleetledger.methods.lga.device import DEVICE
from fleetledger.methods.lga.memory import Memory, read_memory
from fleetledger.methods.training.exchange import ClientUpdate, FitInstruction, FitJob, LocalData
from tests.methods.lga.making import ANT, BEE, CAT, DOG, EVERY, STAGES, asked, samples
from tests.methods.local_rounds import LocalRounds
from tests.methods.making import given, joined, order

PICTURES = Pictures((0.3,), (0.25,))


LOCAL = LocalRounds(DEVICE, PICTURES)
begun, learn = LOCAL.begun, LOCAL.learn


def seen(
    of: LgaAssignment, asks: FitInstruction, data: LocalData, memory: bytes | None = None
) -> Memory:
    """What a device outside the cohort remembers after its look."""
    return read_memory(LOCAL.observed(of, asks, data, memory).memory)


class Taught:
    """A fleet that has learned ant and bee, and is asked to learn cat and dog."""

    def __init__(self, of: LgaAssignment, **changes: Any) -> None:
        self.of = of
        self.old, self.new = samples(20, ANT, BEE), samples(14, CAT, DOG, seed=1)
        self.data = joined(self.old, self.new)
        question = asked(of, rounds_of_stage=1)
        self.first = learn(of, order(question, (1, 1)), self.old)
        self.memory = self.first.memory
        self.made = COORDINATOR.combine(of, question, [given(self.first.payload, 20)])
        values = {"rows": (ANT, BEE), "extras": {NEW_MODEL: self.made.weights}}
        self.question = asked(of, *EVERY, weights=self.made.weights, **(values | changes))
        self.order = order(self.question, STAGES, number=2)

    def begun(self, data: LocalData | None = None) -> FitJob:
        return begun(self.of, self.order, self.data if data is None else data, self.memory)

    def work(self, data: LocalData | None = None) -> Work:
        found = self.begun(data).work
        assert isinstance(found, Work)
        return found

    def learn(self, data: LocalData | None = None) -> ClientUpdate:
        data = self.data if data is None else data
        return learn(self.of, self.order, data, self.memory)
