"""Cases of tables in run folders: gone on with where they were stopped, and what they cost.

A folder may be of an earlier form of its case, for cases change and folders stay. What a run goes
on with is the scenario that it was begun with, so a folder of other settings is refused.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console

from fleetledger.simulator.errors import RunError
from fleetledger.simulator.metrics.results import FILE_NAME, RunResults
from fleetledger.simulator.run.folder import RunFolder
from fleetledger.simulator.run.runs import RunOptions, resume_run, run_scenario
from fleetledger.simulator.scenario.loading import load_scenario, parse_scenario, scenario_content
from fleetledger.simulator.scenario.model import Scenario

_PROCESSOR = "processor.jsonl"
_SAID = ("title", "description", "published")
"""Fields of a scenario that change nothing that is computed."""
_MOST_TOLD = 5


def run_case(
    scenario: str, changes: Sequence[str], folder: Path, *, report: bool = True
) -> RunResults:
    """Bring a case to its end: from its start, from where it stopped, or not at all.

    Without a report a folder that goes away anyhow has its numbers alone.

    Raises `RunError` where the folder holds a run whose settings are not the case's.
    """
    case = load_scenario(scenario, changes)
    _check_settings(case, folder)
    if (folder / FILE_NAME).exists():
        return RunResults.read(folder)
    console, options = Console(stderr=True), RunOptions(report=report)
    with _processor_time(folder):
        if (folder / "run.json").exists():
            return resume_run(folder, console, options=options)
        return run_scenario(case, folder, console, options=options)


def processor_seconds(folder: Path) -> float | None:
    """Return the seconds of all threads over all starts of a case; None where nobody counted."""
    path = folder / _PROCESSOR
    if not path.exists():
        return None
    return round(sum(float(line) for line in path.read_text(encoding="utf-8").split()), 1)


def _check_settings(case: Scenario, folder: Path) -> None:
    path = RunFolder(folder).scenario
    if not path.exists():
        return
    kept = dict(_fields(parse_scenario(str(path), path.read_text(encoding="utf-8"), folder)))
    now = dict(_fields(case))
    other = sorted(name for name in kept | now if kept.get(name) != now.get(name))
    if other:
        told = [f"{name} {kept.get(name)!r}, now {now.get(name)!r}" for name in other[:_MOST_TOLD]]
        more = f" and {len(other) - _MOST_TOLD} more" if len(other) > _MOST_TOLD else ""
        raise RunError(
            f"{folder}: holds a run of the case as it was: {'; '.join(told)}{more}; delete that "
            "folder, or give another for the runs"
        )


def _fields(scenario: Scenario) -> Iterator[tuple[str, Any]]:
    content = scenario_content(scenario)
    return _flat({name: value for name, value in content.items() if name not in _SAID})


def _flat(content: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """Yield values under their names from the top, as `--set` has them."""
    for name, value in content.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{above}{name}.")
        else:
            yield f"{above}{name}", value


@contextmanager
def _processor_time(folder: Path) -> Iterator[None]:
    """Add the seconds of all threads of this process to what the folder knows."""
    before = time.process_time()
    try:
        yield
    finally:
        if folder.exists():
            with (folder / _PROCESSOR).open("a", encoding="utf-8") as lines:
                lines.write(json.dumps(round(time.process_time() - before, 1)) + "\n")
