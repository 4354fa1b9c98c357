"""The rows of the table: what is measured one after another, the cheap and the certain first.

Check   two ways to train the same works give the same tensors, but for rounding
Speed   seconds of a round by an engine in a precision, memory, and the GPU's share of the time
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import isfinite
from typing import Any, Literal, Protocol

import torch

from benchmarks.gpu.budget import Share
from benchmarks.gpu.cases import CASES, Case, LocalRound
from benchmarks.gpu.machine import Precision, forget_peaks, peaks, precise, settle
from benchmarks.gpu.profile import RUNS, gpu_share
from fleetledger.learning.training.engine import train
from fleetledger.learning.training.memory import agents_per_stack
from fleetledger.learning.training.settings import EngineName, StepsName, TrainingEngineSettings
from fleetledger.learning.training.stepping import LEAST_STEPS
from fleetledger.learning.training.work import Trained, Work

GIB = 1 << 30
MOST_RUNS = 7
PROFILED_OF_A_LOOP = 2
"""Agents whose kernels are recorded in a loop, where all do the same."""
CHECKED_AGENTS = 8
WITHIN_FLOAT64 = 1e-12
"""Stack beside loop, as the tests of `learning/training` have it."""
BESIDE_PROCESSOR = 1e-9
"""In float64: far above rounding of two steps, far below anything that is computed wrongly."""

Memory = Literal["1 GiB", "half of what is free"]


@dataclass(frozen=True)
class Place:
    """Where and in which size all entries are measured."""

    device: str
    small: bool


class Entry(Protocol):
    """A row: its name, what it is of, and how it is measured."""

    @property
    def name(self) -> str:
        """What the row is called, once in the table."""
        ...

    def work(self, small: bool) -> Mapping[str, Any]:
        """Return what is trained, and how."""
        ...

    def measure(self, place: Place, share: Share) -> dict[str, Any]:
        """Return what was found; raise `OutOfTimeError`."""
        ...


@dataclass(frozen=True)
class Speed:
    """A round of a case by one engine, in one precision."""

    case: Case
    engine: EngineName
    precision: Precision
    memory: Memory = "half of what is free"
    """What a stack may take; without a word the engine takes half of what the card has free."""
    steps: StepsName = "eager"
    channels_last: bool = False

    @property
    def name(self) -> str:
        """Case, engine with what a stack may take or how its steps go, precision."""
        words = [f"{self.engine} of {self.memory}" if self.engine == "stack" else self.engine]
        words += [self.steps] * (self.steps != "eager") + ["channels last"] * self.channels_last
        return f"{self.case.name}, {' '.join(words)}, {self.precision}"

    def work(self, small: bool) -> Mapping[str, Any]:
        """Return the sizes of the round."""
        return self.case.sizes(small=small)

    def measure(self, place: Place, share: Share) -> dict[str, Any]:
        """Return seconds, rates, peaks of memory and the GPU's share of the time."""
        made, settings = _round_of(self.case, place), self._settings(place)
        forget_peaks(place.device)

        done: list[list[Trained]] = []

        def run(of: LocalRound = made) -> None:
            done[:] = of.train(settings)
            settle(place.device)

        few = made if self.engine == "stack" else made.of(PROFILED_OF_A_LOOP)
        profiled = RUNS * len(few.works) / len(made.works) if peaks(place.device) else 0.0
        with precise(self.precision):
            seconds = share.repeat(run, MOST_RUNS, profiled)
            found = self._rates(done, seconds)
            memory = peaks(place.device)
            computing = gpu_share(lambda: run(few), place.device, share.budget.clock)
        if self.engine == "stack":
            found["agents_per_stack"] = agents_per_stack(made.works, settings)
        return {**found, "peak_bytes": memory, "gpu": computing}

    def _settings(self, place: Place) -> TrainingEngineSettings:
        return TrainingEngineSettings(
            self.engine,
            place.device,
            autocast=self.precision == "bfloat16",
            stack_bytes=GIB if self.memory == "1 GiB" else None,
            steps=self.steps,
            channels_last=self.channels_last,
        )

    def _rates(self, done: Sequence[Sequence[Trained]], seconds: Sequence[float]) -> dict[str, Any]:
        """Return what a round of these agents is per second, and what its protocol would take."""
        steps = sum(trained.steps for stage in done for trained in stage)
        median = statistics.median(seconds)
        rates: dict[str, Any] = {
            "agents": len(done[0]),
            "steps": steps,
            "seconds": {
                "median": median,
                "lowest": min(seconds),
                "highest": max(seconds),
                "runs": len(seconds),
            },
            "agents_per_second": len(done[0]) / median,
            "steps_per_second": steps / median,
        }
        if self.case.protocol:
            rates["protocol"] = {
                "name": self.case.protocol,
                "steps": self.case.protocol_steps,
                "extrapolated_seconds": self.case.protocol_steps * median / steps,
            }
        return rates


@dataclass(frozen=True)
class Check:
    """A short round, trained in two ways, whose tensors are compared."""

    case: Case
    kind: Literal["stack beside loop", "here beside processor", "captured beside eager"]
    precision: Literal["float64", "float32"]

    @property
    def name(self) -> str:
        """Case, what is compared, precision."""
        return f"{self.case.name}, {self.kind}, {self.precision}"

    def work(self, small: bool) -> Mapping[str, Any]:
        """Return the sizes of the round that the works are of."""
        return self.case.checked or self.case.sizes(small=small)

    @property
    def within(self) -> float:
        """The largest difference that is allowed, relative to each tensor's largest value."""
        if self.kind != "stack beside loop":
            return BESIDE_PROCESSOR
        return WITHIN_FLOAT64 if self.precision == "float64" else self.case.float32_within

    def measure(self, place: Place, share: Share) -> dict[str, Any]:
        """Return how far both are apart, and whether that is within the bound."""
        settle(place.device)
        start = share.budget.clock()
        with precise("float32"):
            apart = self._apart(place)
        settle(place.device)
        seconds = share.budget.clock() - start
        return {
            "apart": apart if isfinite(apart) else "not finite",
            "within": self.within,
            "equal": apart <= self.within,  # which a NaN is not
            "check_seconds": seconds,
        }

    def _apart(self, place: Place) -> float:
        here = TrainingEngineSettings("loop", place.device)
        if self.kind == "stack beside loop":
            made = _round_of(self.case, place).of(CHECKED_AGENTS)
            made = made.doubled() if self.precision == "float64" else made
            return difference(made, here, TrainingEngineSettings("stack", place.device))
        sizes = self.work(place.small)
        if self.kind == "captured beside eager":
            made = self.case.make(device=place.device, **sizes).of(2).doubled().moved(place.device)
            made = made.lasting(LEAST_STEPS)
            return difference(made, here, replace(here, steps="captured"))
        made = self.case.make(device="cpu", **sizes).of(1).short(2).doubled()
        return difference(made, here, TrainingEngineSettings("loop", "cpu"))


def entries() -> Iterator[Check | Speed]:
    """Yield all rows in their order: of each case the checks, and what is fast before the loop."""
    for case in CASES:
        if case.stackable:
            yield Check(case, "stack beside loop", "float64")
            yield Check(case, "stack beside loop", "float32")
        else:
            yield Check(case, "here beside processor", "float64")
        if case.stackable:
            yield Speed(case, "stack", "float32", "1 GiB")
            yield from (Speed(case, "stack", precision) for precision in _PRECISIONS)
            yield Speed(case, "loop", "float32")
        else:
            yield Check(case, "captured beside eager", "float64")
            yield from (Speed(case, "loop", precision) for precision in _PRECISIONS)
            yield from _replayed(case)


def _replayed(case: Case) -> Iterator[Speed]:
    """Yield rows of a looped case by a captured graph, as it is and as a GPU likes it best."""
    yield Speed(case, "loop", "float32", steps="captured")
    yield Speed(case, "loop", "bfloat16", channels_last=True)
    yield Speed(case, "loop", "bfloat16", steps="captured", channels_last=True)


def difference(
    made: LocalRound, one: TrainingEngineSettings, other: TrainingEngineSettings
) -> float:
    """Return how far two ways to train are apart, in each of a round's parts.

    What follows begins with what the first way has trained, so that parts are compared one by one.
    """
    trained = train(made.works, one)
    apart = _largest(made.works, trained, train(made.works, other))
    if made.following is None:
        return apart
    then = made.following(made.works, trained)
    follows = _largest(then, train(then, one), train(then, other))
    return float(torch.tensor([apart, follows]).max())  # of a NaN, too; Python's would lose it


def _largest(works: Sequence[Work], one: Sequence[Trained], other: Sequence[Trained]) -> float:
    """Return the largest difference, relative to each tensor's largest value or 0.1.

    Raises `ValueError` where nothing was trained, which any two ways would agree in.
    """
    found = []
    for work, first, second in zip(works, one, other, strict=True):
        if (first.steps, first.samples) != (second.steps, second.samples) or not first.steps:
            raise ValueError(f"steps: {first.steps} one way and {second.steps} the other")
        moved = False
        for name, values in {**first.parameters, **first.buffers}.items():
            ours = values.double().cpu()
            theirs = {**second.parameters, **second.buffers}[name].double().cpu()
            found.append((ours - theirs).abs().max() / theirs.abs().max().clamp(min=0.1))
            before = work.parameters.get(name)
            moved |= before is not None and not torch.equal(ours, before.double().cpu())
        if not moved:
            raise ValueError("parameters: none has moved in training")
    return float(torch.stack(found).max())


_PRECISIONS: tuple[Precision, ...] = ("float32", "tf32", "bfloat16")


@lru_cache(maxsize=1)
def _round_of(case: Case, place: Place) -> LocalRound:
    """Return a case's round on the device; the last one is kept, and no other beside it."""
    return case.round(small=place.small, device=place.device)
