"""How long a run is expected to take, and how much memory: from what was measured, or not at all.

What the same scenario took on this machine is kept in the cache folder, one small file each; seeds
and texts of a scenario do not matter. Of a scenario that did not run here yet, only what its first
round or stage took says anything: the rest is taken to go on at that pace.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError

from fleetledger.schemas.canonical import canonical_json
from fleetledger.schemas.message import Strict
from fleetledger.schemas.values import Digest
from fleetledger.simulator.engines.rounds import round_rules
from fleetledger.simulator.run.durable import replace_file
from fleetledger.simulator.scenario.model import Scenario
from fleetledger.simulator.scenario.trainer import learns_in_rounds

_MOST_FILES = 500
"""Scenarios that are remembered; the one that ran longest ago makes room."""
_MOST_BYTES = 1 << 17
"""Of a file, which has a number for each of at most 1,000 stages."""
_TELLS_NOTHING_OF_COST = {"title", "description", "published", "seeds"}
Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class MeasuredRun(Strict):
    """What a whole run took, as means over its seeds."""

    format: Literal[1] = 1
    day: str = Field(pattern=r"^\d{4}-\d{2}-\d{2}$")
    """When it ended, UTC."""
    before_seconds: Seconds
    """Of a seed before its first stage."""
    stage_seconds: tuple[Seconds, ...] = Field(min_length=1, max_length=1000)
    after_seconds: Seconds
    """Of a seed after or between its stages, with a rollout."""
    other_seconds: Seconds
    """Of the run beside its seeds: looking at the data, and the report."""
    peak_memory_mib: Seconds
    gpu_memory_mib: Seconds = 0.0
    """What torch had of the GPU at most; 0 where nothing was computed on one."""

    def left(self, finished: Sequence[int]) -> float:
        """Return the seconds that are left, given how many stages of each seed are finished."""
        return self.other_seconds + sum(map(self._left_of_seed, finished))

    def _left_of_seed(self, finished: int) -> float:
        if finished >= len(self.stage_seconds):
            return 0.0
        before = 0.0 if finished else self.before_seconds
        return before + sum(self.stage_seconds[finished:]) + self.after_seconds


@dataclass(frozen=True)
class SeedTimes:
    """What one seed took."""

    before_seconds: float
    stage_seconds: tuple[float, ...]
    after_seconds: float
    peak_memory_mib: float


def measured_run(seeds: Sequence[SeedTimes], whole_seconds: float, day: str) -> MeasuredRun:
    """Return the means over at least one seed; `whole_seconds` is what the run took."""
    stages = zip(*(seed.stage_seconds for seed in seeds), strict=True)
    spent = sum(s.before_seconds + sum(s.stage_seconds) + s.after_seconds for s in seeds)
    return MeasuredRun(
        day=day,
        before_seconds=_mean([seed.before_seconds for seed in seeds]),
        stage_seconds=tuple(_mean(stage) for stage in stages),
        after_seconds=_mean([seed.after_seconds for seed in seeds]),
        other_seconds=max(0.0, whole_seconds - spent),
        peak_memory_mib=max(seed.peak_memory_mib for seed in seeds),
    )


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


class Forecasts:
    """The folder with what was measured, a file for each scenario and machine."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def find(self, kind: Digest) -> MeasuredRun | None:
        """Return what a run of this kind took; None where it is not known, or damaged."""
        try:
            with self._path(kind).open("rb") as file:
                return MeasuredRun.model_validate_json(file.read(_MOST_BYTES))
        except (OSError, ValidationError):
            return None  # it is made anew by the next run

    def keep(self, kind: Digest, run: MeasuredRun) -> None:
        """Keep what a run took, instead of what is known of the kind; raise `OSError`."""
        self._folder.mkdir(parents=True, exist_ok=True)
        replace_file(self._path(kind), run.model_dump_json().encode())
        files = sorted(self._folder.glob("*.json"), key=lambda path: path.stat().st_mtime_ns)
        for path in files[:-_MOST_FILES]:
            path.unlink(missing_ok=True)

    def _path(self, kind: Digest) -> Path:
        return self._folder / f"{kind}.json"


def kind_of(scenario: Scenario, machine: Mapping[str, Any]) -> Digest:
    """Return the name of what takes the same time: a scenario but for its seeds, on a processor."""
    settings = scenario.model_dump(mode="json", exclude=_TELLS_NOTHING_OF_COST)
    place = {name: machine[name] for name in ("processor", "cores")}
    return Digest.of(canonical_json({"scenario": settings, "machine": place}))


@dataclass(frozen=True)
class Pace:
    """How a scenario that is not known here goes on after something of it was measured."""

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
