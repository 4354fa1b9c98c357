"""Cases of tables in run folders: gone on with where they were stopped, and what they cost."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console

from simulator.metrics.results import FILE_NAME, RunResults
from simulator.run.running import resume_run, run_scenario
from simulator.scenario.loading import load_scenario

_PROCESSOR = "processor.jsonl"


def run_case(scenario: str, changes: Sequence[str], folder: Path) -> RunResults:
    """Bring a case to its end: from its start, from where it stopped, or not at all."""
    if (folder / FILE_NAME).exists():
        return RunResults.read(folder)
    console = Console(stderr=True)
    with _processor_time(folder):
        if (folder / "run.json").exists():
            return resume_run(folder, console)
        return run_scenario(load_scenario(scenario, changes), folder, console)


def processor_seconds(folder: Path) -> float | None:
    """Return the seconds of all threads over all starts of a case; None where nobody counted."""
    path = folder / _PROCESSOR
    if not path.exists():
        return None
    return round(sum(float(line) for line in path.read_text(encoding="utf-8").split()), 1)


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
