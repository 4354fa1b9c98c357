"""What `simulate` says of time and memory: at the start, after the first round and first stage."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from datetime import datetime, timezone

from fleetledger.schemas.values import Digest
from fleetledger.simulator.datasets.cache_folder import cache_folder
from fleetledger.simulator.metrics.seed_metrics import SeedMetrics
from fleetledger.simulator.records import StageRecord
from fleetledger.simulator.report.numbers import second_scale
from fleetledger.simulator.run.card_memory import CardMemory, card_of
from fleetledger.simulator.run.forecast import (
    Forecasts,
    Pace,
    SeedTimes,
    kind_of,
    measured_run,
)
from fleetledger.simulator.run.platform_facts import machine
from fleetledger.simulator.scenario.model import Scenario

Clock = Callable[[], float]


class Expectation:
    """What is expected of one process' work on a run; it measures the run meanwhile.

    - `at_start` says what the same scenario took here before, or that it is not known.
    - `round_done` says what the first round makes likely, where nothing was known.
    - `stage_done` corrects either by what the first stage took.
    - `run_done` keeps what the run took, for the next one.
    """

    def __init__(
        self,
        scenario: Scenario,
        forecasts: Forecasts,
        kind: Digest,
        clock: Clock,
        card: CardMemory | None = None,
    ) -> None:
        self._card = card
        self._forecasts, self._kind, self._clock = forecasts, kind, clock
        self._known = forecasts.find(kind)
        self._pace = Pace.of(scenario)
        self._finished = dict.fromkeys(scenario.seeds, 0)
        self._seconds: list[float] = []
        """Of the stages of the present seed that were learned here."""
        self._times: list[SeedTimes] = []
        self._is_whole = True
        """Whether all of the run was done by this process."""
        self._is_corrected = False
        self._began = self._seed_began = self._stage_began = self._prepared = clock()

    @classmethod
    def of(cls, scenario: Scenario, clock: Clock = time.monotonic) -> Expectation:
        """Return what is known on this machine of a scenario; the run begins now."""
        forecasts = Forecasts(cache_folder("forecasts"))
        return cls(scenario, forecasts, kind_of(scenario, machine()), clock, card_of(scenario))

    def at_start(self, finished: Mapping[int, int] | None = None) -> str:
        """Say what is expected, `finished` being the stages by seed that a former process did."""
        self._finished |= finished or {}
        self._is_whole = not finished
        known = self._known
        if known is None:
            return (
                "expected: not known, since no run of this scenario was measured on this machine; "
                f"what its first round or stage takes will tell{self._of_card()}"
            )
        left = known.left(tuple(self._finished.values()))
        memory = _mebibytes(known.peak_memory_mib)
        told = f"expected: {about(left)} and {memory}, as on this machine on {known.day}"
        return told + self._of_card()

    def seed_begins(self) -> None:
        """Take the time."""
        self._seed_began, self._seconds = self._clock(), []

    def seed_is_prepared(self) -> None:
        """Take the time at which its stages can begin."""
        self._prepared = self._clock()

    def stage_begins(self) -> None:
        """Take the time."""
        self._stage_began = self._clock()

    def round_done(self, done: int) -> str:
        """Return what the first round says of a scenario that is not known; else nothing."""
        is_first = done == 1 and not self._seconds and not any(self._finished.values())
        if self._is_corrected or self._known is not None or not (is_first and self._is_whole):
            return ""
        left = self._pace.after_round(self._clock() - self._stage_began, len(self._finished))
        return f"after the first round: {about(left)} left, if each takes as long" if left else ""

    def stage_done(self, seed: int, record: StageRecord) -> str:
        """Return what the first stage of this process says of the rest; nothing of later ones."""
        self._seconds.append(record.wall_seconds)
        self._finished[seed] = record.stage
        if self._is_corrected or not record.wall_seconds:
            return ""
        left, why = self._left(record)
        if left is None:
            return ""
        self._is_corrected = True
        if all(done >= len(self._pace.steps) for done in self._finished.values()):
            return ""
        memory = f"{record.peak_memory_mib:,.0f} MiB so far"
        return f"after stage {record.stage}: {about(left)} left, {why}; {memory}"

    def seed_done(self, metrics: SeedMetrics) -> None:
        """Note what a seed took."""
        stages = tuple(stage.wall_seconds for stage in metrics.stages)
        after = self._clock() - self._prepared - sum(stages)
        before = self._prepared - self._seed_began
        peak = max(stage.peak_memory_mib for stage in metrics.stages)
        self._times.append(SeedTimes(before, stages, max(0.0, after), peak))

    def run_done(self) -> None:
        """Keep what the run took, where this process did all of it; raise `OSError`."""
        lengths = {len(times.stage_seconds) for times in self._times}
        if self._is_whole and len(lengths) == 1:
            day = datetime.now(timezone.utc).date().isoformat()
            run = measured_run(self._times, self._clock() - self._began, day)
            if self._card is not None:
                run = run.model_copy(update={"gpu_memory_mib": self._card.peak_mib})
            self._forecasts.keep(self._kind, run)

    def _of_card(self) -> str:
        """Say what is expected of the GPU's memory beside what is free; nothing without a GPU."""
        card, known = self._card, self._known
        if card is None:
            return ""
        free = _mebibytes(card.free_mib)
        if known is not None and known.gpu_memory_mib:
            taken = known.gpu_memory_mib
            beside = f"of {free}" if taken <= card.free_mib else f"but only {free} are"
            return f"; of the GPU's memory {_mebibytes(taken)}, {beside} free"
        if card.stack_mib is not None:
            return (
                f"; stacks may take {_mebibytes(card.stack_mib)} of the GPU's {free} that are free"
            )
        return f"; {free} of the GPU's memory are free"

    def _left(self, record: StageRecord) -> tuple[float | None, str]:
        """Return the seconds that are left after a stage, and why."""
        known, seconds = self._known, record.wall_seconds
        left: float | None
        if known is not None and record.stage <= len(known.stage_seconds):
            then = known.stage_seconds[record.stage - 1]
            left = known.left(tuple(self._finished.values())) * (seconds / then if then else 1.0)
            return left, f"since it took {_said(seconds)}, and {_said(then)} on {known.day}"
        if not self._is_whole:
            return None, ""
        left = self._pace.after_stages(self._seconds, len(record.rounds), len(self._finished))
        return left, "if the others go on as this one did"


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
