"""Runs of many seeds, in one process or several, with their outcome in numbers."""

from __future__ import annotations

import logging
import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from fleetledger.simulator.run.provenance import machine, versions
from tests.chaos.errors import ChaosError
from tests.chaos.report import ChaosReport
from tests.chaos.trials import Trials

_RANGE = re.compile(r"(\d+)(?:-(\d+))?")


def read_range(text: str) -> range:
    """Return the seeds that `text` names, such as `0-1999` or `7`; raise `ChaosError`."""
    found = _RANGE.fullmatch(text)
    if found is None:
        raise ChaosError(f"seeds: {text!r} is no range; give the first and the last, like 0-199")
    first = int(found[1])
    return range(first, int(found[2] or first) + 1)


def run_seeds(
    folder: Path, seeds: Sequence[int], jobs: int, console: Console, *, rollouts: bool = False
) -> Iterator[ChaosReport]:
    """Run seeds and yield their reports as they come; a progress bar shows how far it is.

    With `rollouts` on the fleets that get a candidate, else on those that learn.

    Without torch, seeds of fleets that train are left out.
    """
    # Their tensors are small: more threads than one only wait for each other.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    columns = (TextColumn("seeds"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("seeds", total=len(seeds))
        for report in _reports(folder, seeds, jobs, rollouts=rollouts):
            bar.advance(task)
            yield report


def summarise(reports: Sequence[ChaosReport], command: str) -> dict[str, Any]:
    """Return the numbers of all runs together, and which promises were broken by which seeds."""
    done: Counter[str] = Counter()
    broken: dict[str, list[int]] = {}
    for report in reports:
        done.update(report.done)
        for item in report.broken:
            seeds = broken.setdefault(item.promise, [])
            if report.seed not in seeds:
                seeds.append(report.seed)
    return {
        "command": command,
        "machine": {**machine(), **versions()},
        "runs": len(reports),
        "failed": sum(bool(report.broken) for report in reports),
        "broken": broken,
        "done": dict(sorted(done.items())),
        "fleet_seconds": round(sum(report.fleet_seconds for report in reports)),
        "slowest_seconds": round(max((report.slowest_seconds for report in reports), default=0)),
        "seconds": round(sum(report.seconds for report in reports), 1),
    }


def _reports(
    folder: Path, seeds: Sequence[int], jobs: int, *, rollouts: bool
) -> Iterator[ChaosReport]:
    if jobs == 1:
        trials = Trials(folder, rollouts=rollouts)
        yield from map(trials.run, filter(trials.can_run, seeds))
        return
    with ProcessPoolExecutor(jobs, initializer=_begin, initargs=(folder, rollouts)) as pool:
        try:
            yield from filter(None, pool.map(_run, seeds))
        finally:
            pool.shutdown(cancel_futures=True)


_TRIALS: list[Trials] = []
"""The fleets of a process of the pool."""


def _begin(folder: Path, rollouts: bool) -> None:
    logging.disable(logging.WARNING)
    _TRIALS.append(Trials(folder / f"process-{os.getpid()}", folder, rollouts=rollouts))


def _run(seed: int) -> ChaosReport | None:
    (trials,) = _TRIALS
    return trials.run(seed) if trials.can_run(seed) else None
