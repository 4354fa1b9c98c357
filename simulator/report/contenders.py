"""Runs that are put side by side: their names, what sets them apart, and what forbids comparing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fleetledger.runtime.count_words import count_of
from fleetledger.simulator.metrics.over_seeds import PairedDifference, paired_difference
from fleetledger.simulator.metrics.results import RunResults
from fleetledger.simulator.metrics.score import SaidScore, common_score
from fleetledger.simulator.report.run import Run

_IN_WORDS = ("title", "description", "published", "seeds")
"""Fields of a scenario that say nothing about how it runs."""


@dataclass(frozen=True)
class Contender:
    """One run under the name by which the comparison calls it."""

    name: str
    folder: Path
    results: RunResults

    def minus(self, first: Contender, metric: str) -> PairedDifference | None:
        """Return this run minus the first over the seeds that both have, None without any."""
        return paired_difference(first.results.headline(metric), self.results.headline(metric))


def contenders_of(runs: Sequence[Run]) -> list[Contender]:
    """Return runs under the names of their folders; of two alike with the folders above."""
    names = _names([run.folder for run in runs])
    return [Contender(name, run.folder, run.results) for name, run in zip(names, runs, strict=True)]


def score_of(contenders: Sequence[Contender]) -> SaidScore:
    """Return the word for what the runs are scored by."""
    return common_score(item.results.score for item in contenders)


def _names(paths: list[Path]) -> list[str]:
    """Return the shortest ends of the paths that tell them apart; of equal paths the whole."""
    longest = max(len(path.parts) for path in paths)
    for length in range(1, longest):
        names = ["/".join(path.parts[-length:]) for path in paths]
        if len(set(names)) == len(names):
            return names
    return [str(path) for path in paths]


def warnings(contenders: Sequence[Contender]) -> list[str]:
    """Return in sentences what makes a run another experiment than the first."""
    first = contenders[0]
    found = []
    for other in contenders[1:]:
        differences = _differences(first.results, other.results)
        if differences:
            found.append(f"{other.name} differs from {first.name} in {', '.join(differences)}.")
        if not first.results.seeds.keys() & other.results.seeds.keys():
            found.append(f"{other.name} and {first.name} share no seed, so no difference is taken.")
    return found


def _differences(first: RunResults, other: RunResults) -> list[str]:
    found = []
    if first.score != other.score:
        found.append(f"what it is scored by ({first.score} against {other.score})")
    if first.scenario.data.model_dump(exclude={"root"}) != other.scenario.data.model_dump(
        exclude={"root"}
    ):
        found.append("the data")
    sizes = [
        [len(stage.class_names) for stage in results.first.stages] for results in (first, other)
    ]
    if sizes[0] != sizes[1]:
        found.append(f"the stages ({_stages(sizes[0])} against {_stages(sizes[1])})")
    elif first.scenario.stages != other.scenario.stages:
        found.append("how stages are made up")
    return found


def _stages(sizes: list[int]) -> str:
    return f"{len(sizes)} with {count_of(sum(sizes), 'class', 'classes')}"


def setting_rows(contenders: Sequence[Contender]) -> list[tuple[str, ...]]:
    """Return the settings in which the scenarios differ: name, then the value of each run."""
    flat = [
        _flatten(item.results.scenario.model_dump(exclude=set(_IN_WORDS))) for item in contenders
    ]
    names = sorted({name for settings in flat for name in settings})
    rows = [(name, *(settings.get(name, "–") for settings in flat)) for name in names]
    return [row for row in rows if len(set(row[1:])) > 1]


def _flatten(values: dict[str, Any], before: str = "") -> dict[str, str]:
    flat: dict[str, str] = {}
    for name, value in values.items():
        if isinstance(value, dict):
            flat |= _flatten(value, f"{before}{name}.")
        else:
            flat[f"{before}{name}"] = str(value)
    return flat
