"""Small fleets of DCID: sites, questions, orders, and whole sessions by pure halves."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fleetledger.methods.dcid.assignment import DcidAssignment
from fleetledger.methods.dcid.coordinator import COORDINATOR
from fleetledger.methods.dcid.messages import model_frame
from fleetledger.methods.dcid.model import Beginning
from fleetledger.methods.training.exchange import FitInstruction, LocalData, RoundConfig
from fleetledger.schemas.values import ClassName, Digest
from tests.methods.exchange import Exchange
from tests.methods.making import given, joined, told_of

SHAPE = (1, 8, 8)
ANT, BEE, CAT, DOG = (ClassName(name) for name in ("ant", "bee", "cat", "dog"))
EVERY = (ANT, BEE, CAT, DOG)
NEW = (CAT, DOG)
"""Of the second session."""
MEAN, DEVIATION = (0.3,), (0.25,)


EXCHANGE = Exchange(
    COORDINATOR,
    lambda of, question: beginning(of, question).sent,
    lambda of, first, question: model_frame(of, first, 0, len(question.class_names)).weights,
    (ANT, BEE),
    SHAPE,
    {
        "network": "mlp",
        "epochs": 2,
        "batch": 16,
        "rate": 0.05,
        "smallest_batch": 2,
        "shared_per_class": 5,
        "anchors_per_class": 4,
        "distil_rate": 0.01,
        "evaluation": "head",
        "imprint_at": "sites",
    },
)
assignment = EXCHANGE.assignment


def beginning(of: DcidAssignment, question: RoundConfig) -> Beginning:
    rows = (question.weights_class_names, question.class_names)
    return Beginning(of, question.weights, *rows, question.extras, question.aliases)


def samples(count: int, *names: ClassName, seed: int = 0) -> LocalData:
    """Pictures with a bright row for the class, and noise of their own."""
    random = np.random.default_rng(seed)
    labels = tuple(names[number % len(names)] for number in range(count))
    pictures = random.integers(0, 120, (count, *SHAPE)).astype(np.uint8)
    for picture, label in zip(pictures, labels, strict=True):
        picture[:, EVERY.index(label)] += 60
    digests = tuple(Digest.of(f"{seed}/{number}/{names}".encode()) for number in range(count))
    return LocalData(pictures, labels, digests)


def sites(count: int, *, alike: bool = False) -> dict[str, LocalData]:
    """Sites that have 20 images of each pair of classes, each its own, or all the same."""
    return {
        f"dev-{number}": joined(
            samples(20, ANT, BEE, seed=0 if alike else number),
            samples(20, CAT, DOG, seed=9 if alike else 10 + number),
        )
        for number in range(count)
    }


def asked(of: DcidAssignment, *names: ClassName, **changes: Any) -> RoundConfig:
    return EXCHANGE.asked(of, *names, **({"mean": MEAN, "deviation": DEVIATION} | changes))


def order(
    question: RoundConfig, stage: int, new: Sequence[ClassName], site: str, number: int
) -> FitInstruction:
    """What a site is told of a phase."""
    told = told_of(question, number)
    return FitInstruction(stage, tuple(new), told, question.weights, question.extras, site)


def after_two_sessions(count: int, **settings: Any) -> Fleet:
    """A fleet of so many sites that has learned both pairs of classes, one after the other."""
    fleet = Fleet(assignment(**settings), sites(count))
    fleet.session(ANT, BEE)
    fleet.session(CAT, DOG)
    return fleet


@dataclass
class Fleet:
    """Sites that learn by both halves, without a broker between them."""

    of: DcidAssignment
    sites: Mapping[str, LocalData]
    weights: bytes = b""
    names: tuple[ClassName, ...] = ()
    extras: Mapping[str, bytes] = field(default_factory=dict)
    memories: dict[str, bytes | None] = field(default_factory=dict)
    stage: int = 0
    number: int = 0
    sent_bytes: dict[str, int] = field(default_factory=dict)
    answers: dict[str, bytes] = field(default_factory=dict)
    question: Any = None
    made: Any = None
    absent: Callable[[str, str], bool] = lambda phase, site: False

    def __post_init__(self) -> None:
        self.weights = self.weights or COORDINATOR.first_weights(self.of)

    def session(self, *new: ClassName, rounds: int = 1, ends: bool = True) -> None:
        """A whole stage: opening phases, rounds, closing phases; or one that does not end here."""
        self.stage += 1
        every = (*self.names, *(name for name in new if name not in self.names))
        of = self.of
        phases = (*of.opening_phases, *of.round_phases * rounds, *of.closing_phases)
        for place, phase in enumerate(phases):
            self.phase(phase, place + 1, len(phases) + (not ends), every, new)

    def phase(self, phase: str, place: int, places: int, every: tuple, new: tuple) -> None:
        """One phase of all sites that are not absent."""
        self.number += 1
        question = asked(
            self.of,
            *every,
            phase=phase,
            round_of_stage=place,
            rounds_of_stage=places,
            weights=self.weights,
            weights_class_names=self.names,
            extras=self.extras,
        )
        answers = []
        self.answers = {}
        for site in self.sites:
            if not self.absent(phase, site):
                answer = self.answer(question, new, site)
                if answer is not None:
                    COORDINATOR.check(self.of, answer.payload, question)
                    self.answers[site] = answer.payload
                    self.sent_bytes[phase] = self.sent_bytes.get(phase, 0) + len(answer.payload)
                    self.memories[site] = answer.memory
                    answers.append(given(answer.payload, sum(answer.samples.values())))
        self.question = question
        self.made = COORDINATOR.combine(self.of, question, answers)
        self.weights, self.extras, self.names = self.made.weights, self.made.extras, every

    def answer(self, question: RoundConfig, new: Sequence[ClassName], site: str) -> Any:
        from fleetledger.learning.training.loop import train_alone
        from fleetledger.learning.training.settings import TrainingEngineSettings
        from fleetledger.methods.dcid.device import DEVICE
        from tests.methods.dcid.pictures import PICTURES

        asks = order(question, self.stage, new, site, self.number)
        data = self.sites[site]
        begun = DEVICE.begin(self.of, asks, data, self.memories.get(site), PICTURES)
        if begun is None:
            return None
        if begun.work is None:
            return DEVICE.measured(self.of, begun)
        return DEVICE.finish(self.of, begun, train_alone(begun.work, TrainingEngineSettings()))
