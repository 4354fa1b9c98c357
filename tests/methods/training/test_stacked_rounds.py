"""Whole rounds of every method whose devices may train small convolutional networks in a stack.

In every phase loop and stack begin with the same orders, data and memories: what devices train, and
what the coordinator makes of their answers, is equal but for rounding. The next phase goes on from
the loop's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

from fleetledger.learning.training.engine import train
from fleetledger.learning.training.settings import EngineName, TrainingEngineSettings
from fleetledger.learning.training.stacking import signature
from fleetledger.learning.training.work import Trained
from fleetledger.methods.lga.assignment import NEW_MODEL
from fleetledger.methods.rounds.settings import PRESETS
from fleetledger.methods.training.exchange import (
    ClientUpdate,
    FitJob,
    LocalData,
    RoundConfig,
    RoundOutcome,
)
from fleetledger.methods.training.network_weights import decode_weights
from fleetledger.schemas.values import ClassName
from tests.learning.training.agents import largest_difference
from tests.methods.dcid import making as dcid
from tests.methods.lga import making as lga
from tests.methods.lga.making import ANT, BEE, CAT, DOG
from tests.methods.making import given, joined, order
from tests.methods.rounds import making as rounds
from tests.methods.training.test_every_training_device import EVERY, Method

pytestmark = pytest.mark.torch

WITHIN = 1e-4
"""Relative to each tensor's largest value or 0.1: float32, and the grid of the answers."""
SIZES = (22, 19, 16)
"""Images of each pair of classes that devices have: the last rows of a batch pad in a stack."""
STAGES: dict[ClassName, int] = {ANT: 1, BEE: 1, CAT: 2, DOG: 2}


@dataclass
class Cohort:
    """Devices that learn two stages of one round each, by both sides of a method."""

    method: Method
    of: Any
    weights: bytes = b""
    names: tuple[ClassName, ...] = ()
    extras: Mapping[str, bytes] = field(default_factory=dict)
    memories: dict[str, bytes | None] = field(default_factory=dict)
    compared: list[str] = field(default_factory=list)
    """Phases in which devices trained."""

    def learn(self) -> None:
        """Hold both stages, and compare loop and stack in each phase."""
        of, number = self.of, 0
        phases = (*of.opening_phases, *of.round_phases, *of.closing_phases)
        for stage in (1, 2):
            every = tuple(name for name, own in STAGES.items() if own <= stage)
            for place, phase in enumerate(phases, start=1):
                number += 1
                self._phase(phase, every, number, round_of_stage=place, rounds_of_stage=len(phases))
            if "lga" in type(of).kind:  # what else its proxy would choose
                self.extras = {NEW_MODEL: self.weights}

    def _phase(self, phase: str, every: tuple[ClassName, ...], number: int, **told: int) -> None:
        first = self.weights or self.method.exchange.coordinator.first_weights(self.of)
        told |= {"mean": dcid.MEAN, "deviation": dcid.DEVIATION}  # type: ignore[dict-item]
        question = self.method.exchange.asked(
            self.of,
            *every,
            phase=phase,
            weights=first,
            rows=self.names,
            extras=self.extras,
            **told,
        )
        loop, stack = (self._answers(question, engine, number) for engine in ("loop", "stack"))
        if loop.trained:
            self.compared.append(phase)
        for one, other in zip(loop.trained, stack.trained, strict=True):
            assert largest_difference(_state(other), _state(one)) < WITHIN, phase
            assert (one.steps, one.samples) == (other.steps, other.samples)
            assert other.losses == pytest.approx(one.losses, rel=1e-3, abs=1e-6)
        made, again = self._combined(question, loop), self._combined(question, stack)
        self._compare(made, again)
        self.weights, self.extras, self.names = made.weights, made.extras, every
        self.memories = {name: update.memory for name, update in loop.updates.items()}

    def _compare(self, made: RoundOutcome, again: RoundOutcome) -> None:
        one, other = (decode_weights(found.weights, self.of.network)[0] for found in (made, again))
        for name, array in one.items():
            apart = np.abs(array - other[name]).max(initial=0.0)
            assert apart < WITHIN * np.abs(array).max(initial=0.1), name

    def _combined(self, question: RoundConfig, answers: Answers) -> RoundOutcome:
        coordinator = self.method.exchange.coordinator
        counted = []
        for update in answers.updates.values():
            coordinator.check(self.of, update.payload, question)
            counted.append(given(update.payload, sum(update.samples.values())))
        made: RoundOutcome = coordinator.combine(self.of, question, counted)
        return made

    def _answers(self, question: RoundConfig, engine: EngineName, number: int) -> Answers:
        settings, side = TrainingEngineSettings(engine), self.method.local.device
        jobs: dict[str, FitJob[Any]] = {}
        for place, size in enumerate(SIZES):
            name = f"dev-{place}"
            told = [STAGES[one] for one in question.class_names]
            asks = order(question, told, number, name)
            data = samples(self.method, size, seed=place)
            pictures, memory = self.method.local.pictures, self.memories.get(name)
            job = side.begin(self.of, asks, data, memory, pictures, settings)
            assert job is not None
            jobs[name] = job
        if all(job.work is None for job in jobs.values()):
            return Answers([], {name: side.measured(self.of, job) for name, job in jobs.items()})
        trained = _trained(list(jobs.values()), settings)
        made = dict(zip(jobs, trained, strict=True))
        updates = {name: side.finish(self.of, jobs[name], made[name]) for name in jobs}
        return Answers(trained, updates)


@dataclass(frozen=True)
class Answers:
    """What devices trained, where they did, and what they answered."""

    trained: Sequence[Trained]
    updates: Mapping[str, ClientUpdate]


def _trained(jobs: Sequence[FitJob[Any]], settings: TrainingEngineSettings) -> list[Trained]:
    works = [job.work for job in jobs]
    assert all(work is not None and work.loss.stackable for work in works)
    assert len({signature(work) for work in works if work is not None}) == 1, "one stack of all"
    assert all(job.following is None for job in jobs)
    return train([work for work in works if work is not None], settings)


def _state(trained: Trained) -> dict[str, Any]:
    return {**trained.parameters, **trained.buffers}


def samples(method: Method, size: int, seed: int) -> LocalData:
    """Pictures of both pairs of classes, as many of each."""
    first = method.samples(size, ANT, BEE, seed=2 * seed)
    return joined(first, method.samples(size, CAT, DOG, seed=2 * seed + 1))


ROUNDS = replace(
    EVERY["rounds"],
    exchange=replace(rounds.EXCHANGE, names=(ANT, BEE), shape=lga.SHAPE),
    local=replace(EVERY["rounds"].local, pictures=EVERY["lga"].local.pictures),
    samples=lga.samples,
)
DCID = replace(EVERY["dcid"], exchange=dcid.EXCHANGE)
SHAKEN = {"pad": 1, "flip": True}
RESNET8, SIGNED = {"network": "resnet8"}, {"network": "resnet8_signed"}


def learned(method: Method, **settings: Any) -> Cohort:
    of = method.exchange.assignment(**{"rate": 0.02, "epochs": 1, "batch": 16, **settings})
    cohort = Cohort(method, of)
    cohort.learn()
    return cohort


@pytest.mark.parametrize("preset", PRESETS)
def test_rounds(preset: str) -> None:
    few = {"images": 16, "batch": 16, "steps": 2, "latent": 8, "width": 8}
    smaller: dict[str, dict[str, Any]] = {
        "fedmax": {"fedmax": 5.0},
        "fed-ewc": {"ewc": 10.0},
        "target": {"generator": few},  # with more images it takes so many steps that rounding grows
    }
    settings = smaller.get(preset, {})
    cohort = learned(ROUNDS, preset=preset, **RESNET8, **SHAKEN, **settings)
    refits = PRESETS[preset].get("calibration") == "refit"
    assert cohort.compared == ["train", *(["calibrate"] * refits)] * 2


@pytest.mark.parametrize("network", ["convnet", "resnet20"])
def test_other_networks(network: str) -> None:
    assert learned(ROUNDS, network=network, **SHAKEN).compared == ["train", "train"]


@pytest.mark.parametrize("preset", ["lga", "glfc"])
def test_lga(preset: str) -> None:
    cohort = learned(EVERY["lga"], preset=preset, smallest_batch=4, **RESNET8)
    assert cohort.compared == ["train", "train"]


@pytest.mark.parametrize(
    ("preset", "network"),
    [
        ("dcid-icarl", RESNET8),
        ("dcid-lucir", SIGNED),
        ("dcid-erdil", RESNET8),
        ("dcid-tpcil", RESNET8),
    ],
)
def test_dcid(preset: str, network: dict[str, str]) -> None:
    cohort = learned(DCID, preset=preset, smallest_batch=4, **network, **SHAKEN)
    assert cohort.compared == ["train", "distil"] * 2


@pytest.mark.parametrize(
    ("preset", "network"),
    [("dcil-icarl-fedprox", RESNET8), ("dcil-lucir-fedmax", SIGNED)],
)
def test_the_basic_framework_of_dcid(preset: str, network: dict[str, str]) -> None:
    weaker = {"fedmax": 5.0} if preset.endswith("fedmax") else {}
    cohort = learned(DCID, preset=preset, smallest_batch=4, **network, **SHAKEN, **weaker)
    assert cohort.compared == ["train-alone", "train-alone"]
