"""One table of all methods from scratch: pictures, a small network, no pretraining.

    FLEETLEDGER_DATA=FOLDER OMP_NUM_THREADS=1 python -m benchmarks.papers.from_scratch.run
    python -m benchmarks.papers.from_scratch.run --methods lga-code,glfc-code --seeds 1
    python -m benchmarks.papers.from_scratch.run --minutes 30  # begins no further run after that
    python -m benchmarks.papers.from_scratch.run --tables  # writes the table from stored runs

The folder holds cifar100.npz, whole or its core; torch is needed. Row by row the rate is chosen on
training images that are held out, then the first seed is run; the other seeds follow, one after the
other for all rows. Every run is stored in benchmarks/results/from_scratch.json when it has ended,
with its revision, and is not run again; one that was stopped goes on from its folder in --runs.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.papers.footing import cells
from benchmarks.papers.footing.cells import Step
from benchmarks.papers.footing.command import CarriesOut, TableCommand
from benchmarks.papers.footing.held_out import KEPT, held_out_file
from benchmarks.papers.footing.markdown import ranked
from benchmarks.papers.footing.measuring import measured
from benchmarks.papers.footing.plot import Curve
from benchmarks.papers.footing.rates import best_of, next_length, next_rate
from benchmarks.papers.from_scratch.cases import (
    CONVERGED,
    FIRST_PASSES,
    MOST_PASSES,
    ROWS,
    SCENARIO,
    SEEDS,
    TUNING_SEED,
)
from benchmarks.papers.from_scratch.first_network import behind, first_network
from benchmarks.papers.from_scratch.tables import ended, tables
from benchmarks.run_folders import run_case
from fleetledger.simulator.errors import SimulatorError
from fleetledger.simulator.run.provenance import sources


@dataclass(frozen=True)
class Place:
    """Where files are."""

    core: Path
    runs: Path

    @property
    def held_out(self) -> Path:
        """Images to choose rates by."""
        return self.runs / "held_out.npz"

    def changes(self, step: Step, network_rate: float | None) -> list[str]:
        """Return what a step sets in the scenario; a network that it learns behind is made."""
        row = ROWS[step.method]
        assert step.rate is not None, "every row has a rate"
        network = [] if network_rate is None else behind(self._network(step.seed, network_rate))
        if step.seed is not None:
            return [*row.changes(self.core, step.seed, step.rate, step.passes), *network]
        return [*row.tuning_changes(self.held_out, step.rate, step.passes), *network]

    def _network(self, seed: int | None, rate: float) -> Path:
        if seed is None:
            return first_network(self.held_out, TUNING_SEED, rate, self.runs, KEPT)
        return first_network(self.core, seed, rate, self.runs)


def main() -> None:
    """Measure and store, run by run."""
    arguments = TABLE.arguments(__doc__)
    place = Place(arguments.core, arguments.runs)

    def prepare() -> CarriesOut:
        held_out_file(place.core, place.held_out)
        return lambda step, results: carried_out(step, place, results)

    TABLE.run(arguments, steps, prepare)


def steps(
    names: list[str], seeds: list[int], results: Callable[[], Mapping[str, Any]]
) -> Iterator[Step]:
    """Yield what is still to be run; `results` gives what is known by then."""
    for seed in seeds:
        for name in names:
            yield from searching(name, results)
            rate = best_of(tried(results(), name))
            if ROWS[name].ingredient:
                continue
            if rate is not None and f"seed {seed}" not in cells.known(results(), "runs", name):
                yield Step(name, rate, seed, passes_of(results(), name))


def searching(name: str, results: Callable[[], Mapping[str, Any]]) -> Iterator[Step]:
    """Yield the rates of a row, and then its numbers of passes, that are still to be tried."""
    row = ROWS[name]
    if row.behind is not None:
        yield from searching(row.behind, results)
    if row.ingredient:
        yield from (
            Step(name, rate, None) for rate in row.rates if rate not in tried(results(), name)
        )
        return
    while (rate := next_rate(tried(results(), name), row.rates)) is not None:
        yield Step(name, rate, None)
    best = best_of(tried(results(), name))
    if row.passes is None or best is None:
        return
    while (passes := _next_passes(results(), name, best)) is not None:
        yield Step(name, best, None, passes)


def tried(results: Mapping[str, Any], name: str) -> dict[float, float | None]:
    """Return the averages of a row on held-out images by rate; None where a run failed."""
    found = cells.known(results, "rates", name)
    return {float(rate): run.get("average") for rate, run in found.items()}


def passes_of(results: Mapping[str, Any], name: str) -> int | None:
    """Return the passes with the best average on held-out images; None for rows without."""
    if ROWS[name].passes is None:
        return None
    lengths = _lengths(results, name)
    return max(lengths, key=lambda passes: lengths[passes])


def behind_rate(results: Mapping[str, Any], name: str) -> float | None:
    """Return the rate that trained the network which a row sees through; None if it has its own."""
    other = ROWS[name].behind
    return None if other is None else best_of(tried(results, other))


def _next_passes(results: Mapping[str, Any], name: str, best: float) -> int | None:
    return next_length(_lengths(results, name), FIRST_PASSES, CONVERGED, MOST_PASSES)


def _lengths(results: Mapping[str, Any], name: str) -> dict[int, float]:
    """Return averages by passes; the first number is that of the search of the rate."""
    rates = tried(results, name)
    best = best_of(rates)
    first = {} if best is None else {FIRST_PASSES: float(rates[best] or 0)}
    longer = cells.known(results, "passes", name)
    return {**first, **{int(key): float(run.get("average") or 0) for key, run in longer.items()}}


def carried_out(step: Step, place: Place, results: Mapping[str, Any]) -> dict[str, Any]:
    """Run a step in a folder that goes away afterwards; return its numbers.

    A run that ends in an error of the simulator, as of weights that are no numbers, is told so.
    """
    folder, began = place.runs / step.folder, time.monotonic()
    told: dict[str, Any] = {"rate": step.rate}
    if step.passes is not None:
        told["passes"] = step.passes
    network_rate = behind_rate(results, step.method)
    if network_rate is not None:
        told["network_rate"] = network_rate
    try:
        run = run_case(SCENARIO, place.changes(step, network_rate), folder, report=False)
        found = measured(run, folder)
        old = run.first.stages[-1].old_accuracy
        found["old_classes"] = None if old is None else round(100 * old, 2)
    except SimulatorError as error:
        found = {"failed": str(error)}
    shutil.rmtree(folder, ignore_errors=True)
    seconds = round(time.monotonic() - began, 1)
    return {**told, **found, "wall_seconds": seconds, "revision": revision()}


def revision() -> str:
    """Return the commit that ran, and whether its files were changed."""
    return ", ".join(dict.fromkeys(str(source) for source in sources())) or "no checkout"


def curves(results: Mapping[str, Any]) -> list[Curve]:
    """Return a line for each row that has runs."""
    return [
        Curve(ROWS[name].title, runs, ROWS[name].apart or _FAMILIES[ROWS[name].method])
        for name, runs in ranked(ended(results["runs"]))
    ]


_TRAINED, _FROZEN = "whole networks: rounds, and all in one place", "on the first task's network"
_FAMILIES = {
    "lga": "whole networks: LGA, and it without its terms",
    **dict.fromkeys(("rounds", "joint"), _TRAINED),
    **dict.fromkeys(("stsa", "fed3r", "fedncm", "fedhaf"), _FROZEN),
}
TABLE = TableCommand(
    "from_scratch", ROWS, SEEDS, ("torch",), tables, curves, "task (four classes each)"
)


if __name__ == "__main__":
    main()
