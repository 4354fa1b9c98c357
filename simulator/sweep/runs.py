"""The runs of a sweep, beside each other: in processes of this machine, or as tasks on Ray.

A run is what `fleetledger simulate` runs, in a folder of its own, which can be gone on with. One
that fails does not keep the others from being run.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from fleetledger.runtime.count_words import count_of
from fleetledger.runtime.errors import FleetledgerError
from fleetledger.simulator.errors import RunError
from fleetledger.simulator.metrics.results import FILE_NAME, RunResults, summarise
from fleetledger.simulator.ray_connection import RayCluster
from fleetledger.simulator.scenario.model import Scenario
from fleetledger.simulator.sweep.cases import Case, SweptRun

Say = Callable[[str], None]
Submit = Callable[[SweptRun], "Future[str]"]
_LOG = "log.txt"


@dataclass(frozen=True)
class Beside:
    """How many runs go beside each other, and where."""

    jobs: int
    address: str | None = None
    """Of a cluster of Ray, whose tasks the runs are then."""
    cpus: float = 1.0
    """Of the cluster, for each run."""


def carry_out(cases: Sequence[Case], beside: Beside, say: Say) -> None:
    """Bring all runs to their end, and write the results of each case.

    Raises `RunError` that names the runs which failed, when the others are done.
    """
    everything = [run for case in cases for run in case.runs()]
    left = [run for run in everything if not (run.folder / FILE_NAME).exists()]
    say(
        f"{count_of(len(everything), 'run')} of {count_of(len(cases), 'case')}, "
        f"{len(everything) - len(left)} done before"
    )
    failed: list[str] = []
    if left:
        with _submitting(beside) as submit:
            for number, (run, problem) in enumerate(_ended(left, submit), start=1):
                say(f"{number} of {len(left)}: {run.name}: {problem or 'done'}")
                failed += [run.name] if problem else []
    if failed:
        raise RunError(
            f"sweep: {len(failed)} of {count_of(len(left), 'run')} failed, {failed[0]!r} for one; "
            f"what they said is in their {_LOG}: mend it, and go on with --resume"
        )
    for case in cases:
        _summarised(case).write(case.folder)


def _ended(runs: Sequence[SweptRun], submit: Submit) -> Iterator[tuple[SweptRun, str]]:
    """Yield each run as it ends, with what was wrong."""
    asked = {submit(run): run for run in runs}
    for future in as_completed(asked):
        run = asked[future]
        try:
            text = future.result()
        except Exception as error:  # noqa: BLE001 - of whatever ended the process
            yield run, f"failed: {error}"
            continue
        if not (run.folder / FILE_NAME).exists():  # it ran on another machine
            run.folder.mkdir(parents=True, exist_ok=True)
            (run.folder / FILE_NAME).write_text(text, encoding="utf-8")
        yield run, ""


def run_one(content: str, folder: Path) -> str:
    """Bring one run to its end, in whichever process; return its results as JSON.

    Raises `RunError` with what was wrong; the log in its folder says it, too.
    """
    from fleetledger.simulator.run.runs import resume_run, run_scenario  # noqa: PLC0415 - torch's children

    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_name(f"{folder.name}.{_LOG}").open("a", encoding="utf-8") as log:
        console = Console(file=log, width=100)
        try:
            if (folder / "run.json").exists():
                results = resume_run(folder, console)
            else:
                results = run_scenario(Scenario.model_validate_json(content), folder, console)
        except (FleetledgerError, KeyboardInterrupt) as error:
            console.print(str(error), markup=False)
            raise RunError(str(error)) from error
    return results.model_dump_json(indent=1) + "\n"


@contextmanager
def _submitting(beside: Beside) -> Iterator[Submit]:
    """Yield what begins a run; leaving ends those that go on."""
    if beside.address is not None:
        with closing(RayCluster(beside.address)) as cluster:
            task = cluster.task(run_one, cpus=beside.cpus)
            yield lambda run: task(run.scenario.model_dump_json(), run.folder.absolute())
        return
    threads = max(1, (os.cpu_count() or 1) // beside.jobs)
    spawning = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(beside.jobs, spawning, _limit_threads, (threads,)) as pool:
        yield lambda run: pool.submit(run_one, run.scenario.model_dump_json(), run.folder)


def _limit_threads(number: int) -> None:
    """Have this process compute on so many threads, as the others beside it do."""
    from threadpoolctl import threadpool_limits  # noqa: PLC0415 - where it is wanted

    os.environ["OMP_NUM_THREADS"] = str(number)  # of torch, which is not imported yet
    threadpool_limits(number)


def _summarised(case: Case) -> RunResults:
    """Return what came of a case, all seeds together."""
    seeds, machine = {}, {}
    for run in case.runs():
        results = RunResults.read(run.folder)
        seeds[run.seed], machine = results.first, results.machine
    return summarise(case.scenario, machine, seeds)
