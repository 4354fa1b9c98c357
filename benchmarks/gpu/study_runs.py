"""Arms of studies in the simulator: begun, stopped after a round, gone on with, and read."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from benchmarks.papers.packs.to_npz import read_packs
from fleetledger.simulator.datasets.npz import save_npz
from fleetledger.simulator.errors import RunError
from fleetledger.simulator.metrics.results import FILE_NAME, RunResults
from fleetledger.simulator.run.absent_files import absent_here
from fleetledger.simulator.run.folder import RunFolder
from fleetledger.simulator.run.progress import Budget, BudgetSpentError
from fleetledger.simulator.run.runs import RunOptions, resume_run, run_scenario
from fleetledger.simulator.scenario.loading import load_scenario
from fleetledger.simulator.scenario.tiny import tiny_step


def carried_on(
    name: str, changes: Sequence[str], folder: Path, seconds: float, *, tiny: bool
) -> dict[str, Any]:
    """Go on with a run until its end or its budget's; return accuracies so far, in percent.

    `unfinished` is there, and true, where the budget ended first.
    """
    scenario = load_scenario(name, changes)
    if tiny:
        scenario = tiny_step(scenario, absent_here(scenario)).scenario
    done = (folder / FILE_NAME).exists() or _finished(scenario, folder, seconds)
    if not done:
        records = RunFolder(folder).seed(scenario.seeds[0]).records() if folder.exists() else ()
        shares = [record.rounds[-1].accuracy or 0.0 for record in records]
        return {"accuracy": _percent(shares), "unfinished": True}
    metrics = RunResults.read(folder).first
    return {
        "accuracy": _percent([stage.accuracy for stage in metrics.stages]),
        "forgetting": round(100 * metrics.headline["forgetting"], 2),
    }


def _finished(scenario: Any, folder: Path, seconds: float) -> bool:  # noqa: ANN401 - a scenario
    budget, console = Budget(seconds), Console(stderr=True)
    options = RunOptions(budget=budget)
    try:
        if (folder / "run.json").exists():
            resume_run(folder, console, options=options)
        else:
            run_scenario(scenario, folder, console, options=options)
    except RunError:
        if not _is_spent(budget):
            raise
        return False
    return True


def _is_spent(budget: Budget) -> bool:
    try:
        budget.check()
    except BudgetSpentError:
        return True
    return False


def _percent(shares: Sequence[float]) -> list[float]:
    return [round(100 * share, 2) for share in shares]


def of_packs(given: Sequence[Path], made: Path) -> Path:
    """Return the simulator's file: the one that is given, or `made` of difference-coded packs."""
    with np.load(given[0], allow_pickle=False) as first:
        is_whole = "train_x" in first
    if is_whole:
        return given[0]
    if not made.exists():
        made.parent.mkdir(parents=True, exist_ok=True)
        building = made.with_suffix(".part.npz")
        save_npz(building, read_packs(list(given), "fine_names"))
        building.replace(made)
    return made


def images_of_class(data: Path) -> int:
    """Return the training images of the class that has fewest."""
    with np.load(data, allow_pickle=False) as file:
        return int(np.bincount(file["train_y"]).min())
