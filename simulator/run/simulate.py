"""Runs from Python: the same run as that of the command `simulate`, returned as a `Run`."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping
from itertools import count
from pathlib import Path
from typing import Any

from rich.console import Console

from fleetledger.runtime.console import console_for_people
from fleetledger.runtime.registry import is_being_imported
from fleetledger.simulator.callbacks import Callback
from fleetledger.simulator.errors import RunError, ScenarioError
from fleetledger.simulator.metrics.results import RunResults
from fleetledger.simulator.report.run import Run
from fleetledger.simulator.run.absent_files import absent_here, classes_here
from fleetledger.simulator.run.facts import RunFacts
from fleetledger.simulator.run.folder import RunFolder
from fleetledger.simulator.run.progress import Budget
from fleetledger.simulator.run.runs import RunOptions, resume_run, run_scenario, stored_scenario
from fleetledger.simulator.scenario.loading import scenario_of
from fleetledger.simulator.scenario.model import Scenario
from fleetledger.simulator.scenario.shipped import SUFFIX
from fleetledger.simulator.scenario.tiny import tiny_step

RUNS = Path("runs")


def simulate(  # noqa: PLR0913 - each is one option of a run
    scenario: Mapping[str, Any] | str | os.PathLike[str],
    *,
    output: str | os.PathLike[str] | None = None,
    resume: bool = False,
    engine: str | Mapping[str, Any] | None = None,
    seeds: Iterable[int] | None = None,
    changes: Mapping[str, Any] | None = None,
    seconds: float | None = None,
    tiny: bool = False,
    callbacks: Iterable[Callback | str] = (),
    figures: Iterable[str] = (),
    progress: bool | None = None,
) -> Run:
    """Run a fleet on this machine from a scenario, write its report, and return the run.

    | argument | means |
    | --- | --- |
    | `scenario` | a mapping like a scenario's file, a path of one, or the name of one that ships |
    | `output` | folder of the run, empty or new; `runs/<name>-<time>` if None |
    | `resume` | resume the run that `output` holds, if it holds one of the same scenario |
    | `engine` | `inprocess`, `mqtt` or `ray`, or a mapping of the fields of `[engine]` |
    | `seeds` | seeds in place of the scenario's, one run of the fleet each |
    | `changes` | further fields over the scenario's, by section |
    | `seconds` | stop after this long, when the round or stage is done; None never stops |
    | `tiny` | cut to one tiny step; what is not at hand is made up |
    | `callbacks` | functions of a `fl.callbacks.RunEvent`, `Reporter`s, or names of reporters |
    | `figures` | formats, of `svg` and `pdf`, in which every picture is written beside its PNG |
    | `progress` | show it on stderr; if None, where that is a terminal |

    In a mapping a section may be an object whose `as_section()` returns it, as methods of one's
    own have, decorated or not; a title may be left out. No signal handler is set: Ctrl-C raises
    `KeyboardInterrupt` whose text says how to resume. Raises `ScenarioError` for a scenario that
    cannot be, `RunError` for a folder that is taken, a run that ran out of `seconds`, or a package
    that is missing, and other kinds of `SimulatorError` where data, plan or fleet fail.
    """
    if is_being_imported():
        raise RunError(
            "simulate: a child imports this program for its decorators; put the call below "
            "`if __name__ == '__main__':`"
        )
    over: dict[str, Any] = dict(changes or {})
    if engine is not None:
        kind = {"kind": engine} if isinstance(engine, str) else dict(engine)
        over["engine"] = {**over.get("engine", {}), **kind}
    if seeds is not None:
        over["seeds"] = [int(seed) for seed in seeds]
    chosen = scenario_of(scenario, over)
    if tiny:
        chosen = tiny_step(chosen, absent_here(chosen), classes_here(chosen)).scenario
    if resume and output is None:
        raise ScenarioError("resume: needs the folder of the run; give output=FOLDER")
    folder = new_folder(scenario) if output is None else Path(output).expanduser().absolute()
    shown = _console(progress)
    options = RunOptions(Budget(seconds), tuple(callbacks), tuple(figures))
    results = _run(chosen, folder, shown, options, resume=resume)
    return Run(folder, results)


def new_folder(scenario: Mapping[str, Any] | str | os.PathLike[str]) -> Path:
    """Return a folder for a run that is not there yet: `runs/<name>-<time>`, numbered if taken."""
    named = not isinstance(scenario, Mapping)
    name = Path(scenario).name.removesuffix(SUFFIX) if named else "run"  # type: ignore[arg-type]
    whole = f"{name}-{time.strftime('%Y%m%d-%H%M%S')}"
    names = (whole if number == 1 else f"{whole}-{number}" for number in count(1))
    return next(RUNS / each for each in names if not (RUNS / each).exists()).absolute()


def _run(
    scenario: Scenario, folder: Path, console: Console, options: RunOptions, *, resume: bool
) -> RunResults:
    if not resume or not (folder / "run.json").exists():
        return run_scenario(scenario, folder, console, options=options)
    held = RunFolder.open(folder)
    if stored_scenario(held, RunFacts.read(held.facts)) != scenario:
        raise RunError(
            f"resume: {folder} holds a run of another scenario; give another folder, or put the "
            f"scenario back: {held.scenario}"
        )
    return resume_run(folder, console, options=options)


def _console(progress: bool | None) -> Console:
    console = console_for_people(stderr=True)
    shown = console.is_terminal if progress is None else progress
    return console if shown else Console(quiet=True)
