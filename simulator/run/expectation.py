"""Expectation of `simulate`: the time that is left, and the GPU's memory at the start."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from fleetledger.simulator.engines.rounds import round_rules
from fleetledger.simulator.features.providers import torch_has_cuda
from fleetledger.simulator.records import StageRecord
from fleetledger.simulator.report.numbers import second_scale
from fleetledger.simulator.scenario.model import Scenario
from fleetledger.simulator.scenario.trainer import learns_in_rounds, trainer_of
from fleetledger.simulator.virtual.training import TrainerPoolSettings

_MIB = 1 << 20

Clock = Callable[[], float]


class Expectation:
    """Time that is left of one process' work on a run, which it measures meanwhile.

    - `at_start` says what of a GPU's memory is free, if one computes.
    - `round_done` says how long the rest takes after the first round.
    - `stage_done` corrects that once, after the first stage that tells something of the others.
    """

    def __init__(
        self, scenario: Scenario, clock: Clock = time.monotonic, card: CardMemory | None = None
    ) -> None:
        self._card, self._clock = card, clock
        self._pace = Pace.of(scenario)
        self._finished = dict.fromkeys(scenario.seeds, 0)
        self._seconds: list[float] = []
        """Of the stages of the present seed that were learned here."""
        self._is_whole = True
        """Whether all of the run was done by this process."""
        self._is_corrected = False
        self._stage_began = clock()

    @classmethod
    def of(cls, scenario: Scenario) -> Expectation:
        """Return what measures a run that begins now."""
        return cls(scenario, card=card_of(scenario))

    def at_start(self, finished: Mapping[int, int] | None = None) -> str:
        """Return what is free of the GPU's memory, empty without one.

        `finished` are the stages by seed that another process did.
        """
        self._finished |= finished or {}
        self._is_whole = not finished
        card = self._card
        if card is None:
            return ""
        free = _mebibytes(card.free_mib)
        if card.stack_mib is None:
            return f"{free} of the GPU's memory are free"
        return f"stacks may take {_mebibytes(card.stack_mib)} of the GPU's {free} that are free"

    def seed_begins(self) -> None:
        """Measure the stages of another seed."""
        self._seconds = []

    def stage_begins(self) -> None:
        """Take the time."""
        self._stage_began = self._clock()

    def round_done(self, done: int) -> str:
        """Return what the first round says of the rest; empty after others."""
        is_first = done == 1 and not self._seconds and not any(self._finished.values())
        if self._is_corrected or not (is_first and self._is_whole):
            return ""
        left = self._pace.after_round(self._clock() - self._stage_began, len(self._finished))
        return f"after the first round: {about(left)} left, if each takes as long" if left else ""

    def stage_done(self, seed: int, record: StageRecord) -> str:
        """Return what the first stage of this process says of the rest; empty after others."""
        self._seconds.append(record.wall_seconds)
        self._finished[seed] = record.stage
        if self._is_corrected or not (record.wall_seconds and self._is_whole):
            return ""
        left = self._pace.after_stages(self._seconds, len(record.rounds), len(self._finished))
        if left is None:
            return ""
        self._is_corrected = True
        if all(done >= len(self._pace.steps) for done in self._finished.values()):
            return ""
        memory = f"{record.peak_memory_mib:,.0f} MiB so far"
        why = "if the others go on as this one did"
        return f"after stage {record.stage}: {about(left)} left, {why}; {memory}"


def about(seconds: float) -> str:
    """Return a time as one says it: two digits and a unit."""
    return "less than a second" if seconds < 1 else f"about {_said(seconds)}"


def _said(seconds: float) -> str:
    scale, unit = second_scale(seconds)
    return f"{_two_digits(seconds / scale)} {unit}"


def _mebibytes(mib: float) -> str:
    return f"{_two_digits(mib)} MiB"


def _two_digits(value: float) -> str:
    rounded = float(f"{value:.2g}")
    return f"{rounded:,.0f}" if rounded >= 10 else f"{rounded:g}"


@dataclass(frozen=True)
class CardMemory:
    """A GPU on which this process computes."""

    free_bytes: Callable[[], int]
    stack_bytes: Callable[[], int] | None = None
    """What a stack of devices may take; None where none is trained in stacks."""

    @property
    def free_mib(self) -> float:
        """What can be had now."""
        return self.free_bytes() / _MIB

    @property
    def stack_mib(self) -> float | None:
        """What a stack may take of it now; None without stacks."""
        return None if self.stack_bytes is None else self.stack_bytes() / _MIB


def card_of(scenario: Scenario) -> CardMemory | None:
    """Return the GPU that a scenario computes on by torch in this process; None without one."""
    engine = scenario.engine
    if engine.kind != "inprocess" or engine.device == "cpu" or not torch_has_cuda():
        return None
    from fleetledger.learning.training.free_memory import free_bytes  # noqa: PLC0415 - needs torch
    from fleetledger.learning.training.memory import stack_bytes  # noqa: PLC0415 - needs torch

    settings = TrainerPoolSettings.of(engine).for_torch()
    stacks = trainer_of(scenario) is not None and settings.engine != "loop"
    return CardMemory(
        lambda: free_bytes(settings.device),
        (lambda: stack_bytes(settings)) if stacks else None,
    )


@dataclass(frozen=True)
class Pace:
    """Rounds and stages that are ahead of each seed of a scenario."""

    steps: tuple[int, ...]
    """Rounds of each stage; 1 of a stage without rounds."""
    in_rounds: tuple[bool, ...]
    """Whether devices train in each stage."""

    @classmethod
    def of(cls, scenario: Scenario) -> Pace:
        """Return what is ahead of a seed."""
        rules = round_rules(scenario, 0)
        stages = range(1, scenario.stages.total + 1)
        in_rounds = tuple(learns_in_rounds(scenario, stage) for stage in stages)
        first = rules.per_first_stage or rules.per_stage
        steps = (first, *[rules.per_stage] * (len(in_rounds) - 1))
        return cls(
            tuple(many if rounds else 1 for many, rounds in zip(steps, in_rounds, strict=True)),
            in_rounds,
        )

    def after_round(self, seconds: float, seeds: int) -> float | None:
        """Return the seconds that are left after the first round of the first of some seeds.

        None where later stages are of another kind.
        """
        if not all(self.in_rounds):
            return None
        return seconds * (seeds * sum(self.steps) - 1)

    def after_stages(self, stage_seconds: Sequence[float], rounds: int, seeds: int) -> float | None:
        """Return the seconds that are left after the first stages of the first of some seeds.

        `rounds` were held in the last of these stages. None where that tells nothing of those that
        come: it had other work, or no round.
        """
        done, stages = len(stage_seconds), len(self.steps)
        rest = sum(self.steps[done:])
        last = done - 1
        if rest and self.in_rounds[last] != self.in_rounds[-1]:
            return None
        if rest and self.in_rounds[last] and not rounds:
            return None
        steps = rounds if self.in_rounds[last] else 1
        rest_seconds = rest * stage_seconds[last] / steps if done < stages else 0.0
        return rest_seconds + (seeds - 1) * (sum(stage_seconds) + rest_seconds)
