"""Whole local trainings, and a fleet that is about to learn its second task."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fleetledger.learning.training.engine import train
from fleetledger.learning.training.settings import EngineName, TrainingEngineSettings
from fleetledger.methods.fedhaf.assignment import FedHafAssignment
from fleetledger.methods.fedhaf.coordinator import COORDINATOR
from fleetledger.methods.fedhaf.device import DEVICE
from fleetledger.methods.training.exchange import ClientUpdate, FitJob, LocalData, RoundOutcome
from tests.methods.fedhaf.making import ANT, BEE, CAT, DOG, EVERY, asked, order, samples
from tests.methods.local_rounds import LocalRounds
from tests.methods.making import given, joined

LOCAL = LocalRounds(DEVICE, None)
begun, learn = LOCAL.begun, LOCAL.learn


def carried_out(
    works: Sequence[FitJob],
    engine: EngineName = "loop",
    adapt: Callable[[Any], Any] = lambda work: work,
) -> list[tuple[FitJob, Any]]:
    """Train works and what follows each, all that train at once together, as engines do."""
    settings = TrainingEngineSettings(engine=engine)
    ended: dict[int, tuple[FitJob, Any]] = {}
    waiting = dict(enumerate(works))
    while waiting:
        trained = train([adapt(item.work) for item in waiting.values()], settings)
        pairs = zip(waiting, zip(waiting.values(), trained, strict=True), strict=True)
        ended |= dict(pairs)
        waiting = {
            index: ended[index][0].following(ended[index][1])
            for index, item in waiting.items()
            if item.following is not None
        }
    return [ended[index] for index in range(len(works))]


class Taught:
    """A fleet of one device that has learned ant and bee, and is asked to learn cat and dog."""

    def __init__(self, of: FedHafAssignment, **changes: Any) -> None:
        self.of = of
        self.old = samples(20, ANT, BEE, **changes)
        question = asked(of, rounds_of_stage=1)
        self.first = learn(of, order(question), self.old)
        self.made: RoundOutcome = COORDINATOR.combine(of, question, [given(self.first.payload, 20)])
        self.memory = self.first.memory
        self.question = asked(
            of,
            *EVERY,
            weights=self.made.weights,
            rows=(ANT, BEE),
            extras=dict(self.made.extras),
        )
        self.order = order(self.question, CAT, DOG, stage=2)
        self.new = samples(14, CAT, DOG, seed=1, **changes)
        self.data = joined(self.old, self.new)

    def begun(self, data: LocalData | None = None) -> FitJob:
        return begun(self.of, self.order, self.data if data is None else data, self.memory)

    def learn(self, data: LocalData | None = None) -> ClientUpdate:
        data = self.data if data is None else data
        return learn(self.of, self.order, data, self.memory)
