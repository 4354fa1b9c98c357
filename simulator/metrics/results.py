"""The results of a run: what `results.json` holds, and what reports and comparisons read."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError
from typing_extensions import Self

from fleetledger.runtime.strict import Strict
from fleetledger.runtime.whole_file import write_whole
from fleetledger.schemas.message import explain
from fleetledger.simulator.errors import RunError
from fleetledger.simulator.metrics.headline import metrics_of
from fleetledger.simulator.metrics.over_seeds import Summary, summary
from fleetledger.simulator.metrics.score import Score, say
from fleetledger.simulator.metrics.seed_metrics import SeedMetrics
from fleetledger.simulator.scenario.model import Scenario

FILE_NAME = "results.json"


class RunResults(Strict):
    """A scenario, where it ran, and what came out, seed by seed and over the seeds."""

    schema_version: Literal[1] = 1
    scenario: Scenario
    machine: dict[str, str | int | float]
    """Processor, cores, system, versions of what computed."""
    seeds: dict[int, SeedMetrics] = Field(min_length=1)
    summary: dict[str, Summary]
    """Of every headline number that at least one seed has, by name."""

    @property
    def first(self) -> SeedMetrics:
        """The first seed, which stands for the others where one has to."""
        return next(iter(self.seeds.values()))

    @property
    def score(self) -> Score:
        """What the run is scored by: what fields that are called accuracy hold."""
        return self.first.score

    def say(self, text: str) -> str:
        """Return a text about accuracy as one about this run's score."""
        return say(self.score, text)

    @property
    def stages(self) -> int:
        """Stages that every seed got through."""
        return min(len(seed.stages) for seed in self.seeds.values())

    def headline(self, name: str) -> dict[int, float]:
        """Return a headline number by seed, of the seeds that have it."""
        held = {seed: metrics.headline.get(name) for seed, metrics in self.seeds.items()}
        return {seed: value for seed, value in held.items() if value is not None}

    def write(self, folder: Path) -> Path:
        """Write `results.json` into a run folder; return its path."""
        path = folder / FILE_NAME
        write_whole(path, self.model_dump_json(indent=1) + "\n")
        return path

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Read the `results.json` of a run folder; raise `RunError` when there is no good one."""
        path = folder / FILE_NAME
        try:
            return cls.model_validate_json(path.read_bytes())
        except OSError as error:
            raise RunError(
                f"{path}: cannot be read ({error.strerror}); give the folder of a finished run"
            ) from error
        except ValidationError as error:
            raise RunError(
                f"{path}: not the results of a run of this version: {explain(error)}; run it again"
            ) from error


def summarise(
    scenario: Scenario,
    machine: Mapping[str, str | int | float],
    seeds: Mapping[int, SeedMetrics],
) -> RunResults:
    """Put the metrics of a run's seeds together, with mean and deviation of each headline."""
    names = dict.fromkeys(name for m in seeds.values() for name in m.headline)
    by_name = {
        metric.name: [m.headline[metric.name] for m in seeds.values() if metric.name in m.headline]
        for metric in metrics_of(names)
    }
    return RunResults(
        scenario=scenario,
        machine=dict(machine),
        seeds=dict(seeds),
        summary={name: summary(values) for name, values in by_name.items()},
    )
