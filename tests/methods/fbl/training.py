"""Whole local rounds, and a fleet of one device that is about to learn its second task."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

from fleetledger.learning.networks.pictures import Pictures
from fleetledger.learning.training.work import Work
from fleetledger.methods.fbl.assignment import FblAssignment
from fleetledger.methods.fbl.coordinator import COORDINATOR
from fleetledger.methods.fbl.device import DEVICE
from fleetledger.methods.fbl.memory import Memory, read_memory
from fleetledger.methods.training.exchange import (
    ClientUpdate,
    FitInstruction,
    FitJob,
    LocalData,
    RoundOutcome,
)
from tests.methods.fbl.making import (
    ANT,
    BEE,
    CAT,
    DOG,
    EVERY,
    STAGES,
    asked,
    assignment,
    scenes,
    together,
)
from tests.methods.local_rounds import LocalRounds
from tests.methods.making import given, order

PICTURES = Pictures((0.5,) * 3, (0.25,) * 3)


LOCAL = LocalRounds(DEVICE, PICTURES)
begun, learn = LOCAL.begun, LOCAL.learn


def seen(
    of: FblAssignment, asks: FitInstruction, data: LocalData, memory: bytes | None = None
) -> Memory:
    """What a device outside the cohort remembers after its look."""
    return read_memory(LOCAL.observed(of, asks, data, memory).memory)


@cache
def first_task() -> tuple[LocalData, ClientUpdate, RoundOutcome]:
    """Scenes of ant and bee, what a device made of them, and what the fleet did."""
    of, data = assignment(epochs=12, first_rate=0.1), scenes(10, ANT, BEE)
    question = asked(of, rounds_of_stage=1)
    answer = learn(of, order(question, (1, 1)), data)
    return data, answer, COORDINATOR.combine(of, question, [given(answer.payload, 10)])


class Taught:
    """A fleet that has learned ant and bee, and is asked to learn cat and dog."""

    def __init__(self, of: FblAssignment, rounds: int = 2) -> None:
        self.of = of
        self.old, self.first, self.made = first_task()
        self.new = scenes(12, CAT, DOG, hidden=(ANT, BEE), seed=1)
        self.data = together(self.old, self.new)
        self.memory = self.first.memory
        self.question = asked(
            of,
            *EVERY,
            weights=self.made.weights,
            rows=(ANT, BEE),
            extras=self.made.extras,
            rounds_of_stage=rounds,
        )
        self.order = order(self.question, STAGES, number=2)

    def begun(self, data: LocalData | None = None, memory: bytes | None = b"") -> FitJob:
        memory = self.memory if memory == b"" else memory
        return begun(self.of, self.order, data or self.data, memory)

    def work(self, data: LocalData | None = None, memory: bytes | None = b"") -> Work:
        found = self.begun(data, memory).work
        assert isinstance(found, Work)
        return found

    def learn(self, data: LocalData | None = None) -> ClientUpdate:
        return learn(self.of, self.order, data or self.data, self.memory)

    def combined(self, answer: ClientUpdate | None = None) -> RoundOutcome:
        """What the fleet makes of its first round of the second task."""
        payload = (answer or self.learn()).payload
        return COORDINATOR.combine(self.of, self.question, [given(payload, 12)])

    def second(self, made: RoundOutcome, number: int = 3, **changes: Any) -> FitInstruction:
        """The task's second round."""
        question = replace(
            self.question,
            weights=made.weights,
            weights_class_names=EVERY,
            extras=dict(made.extras),
            round_of_stage=2,
        )
        return order(question, STAGES, number=number, **changes)
