"""Verbs of `fleetledger simulate`, one function each; they print to the terminal."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.console import Console

from fleetledger.runtime import command_output
from fleetledger.runtime.command_output import ActionReport, show_action
from fleetledger.runtime.console import console_for_people
from fleetledger.simulator.errors import ScenarioError
from fleetledger.simulator.metrics.results import RunResults
from fleetledger.simulator.scenario.loading import load_scenario
from fleetledger.simulator.scenario.model import Scenario
from fleetledger.simulator.scenario.shipped import shipped_names, shipped_text
from fleetledger.simulator.scenario.studies import study_names, study_text

if TYPE_CHECKING:
    from fleetledger.simulator.run.run_dashboard import RunDashboard
    from fleetledger.simulator.run.runs import RunOptions
    from fleetledger.simulator.sweep.cases import Case
    from fleetledger.simulator.sweep.runs import Beside

RUNS = Path("runs")


@dataclass(frozen=True)
class DashboardOptions:
    """A dashboard is wanted while a run goes."""

    port: int | None = None
    """None for the usual one, or any that is free; 0 for any that is free."""


@dataclass(frozen=True)
class RunArguments:
    """How a run is carried out, as the command line says it."""

    budget: float | None = None
    """Seconds; None without end."""
    report_to: tuple[str, ...] = ()
    figures: tuple[str, ...] = ()

    def options(self) -> RunOptions:
        """Return them as options of a run, whose seconds begin now."""
        from fleetledger.simulator.run.progress import Budget  # noqa: PLC0415 - as below
        from fleetledger.simulator.run.runs import RunOptions  # noqa: PLC0415 - the listing needs none of it

        return RunOptions(Budget(self.budget), self.report_to, self.figures)


def simulate(
    scenario: str,
    overrides: Sequence[str],
    out: Path | None,
    how: RunArguments | None = None,
    dashboard: DashboardOptions | None = None,
    *,
    tiny: bool = False,
) -> None:
    """Run a scenario or a tiny step of it, and print what came out."""
    from fleetledger.simulator.run.runs import run_scenario, stopped_as_error  # noqa: PLC0415 - the listing needs none of it
    from fleetledger.simulator.run.simulate import new_folder  # noqa: PLC0415 - as above

    loaded = load_scenario(scenario, overrides)
    if tiny:
        loaded = _tiny(loaded)
    folder = out or new_folder(scenario)
    console = console_for_people()
    options = (how or RunArguments()).options()
    with stopped_as_error(), _shown(console, loaded, dashboard) as shown:
        results = run_scenario(loaded, folder, console, shown.make_engine, options)
        _print_end(console, results, folder)
        shown.stay()


def _tiny(scenario: Scenario) -> Scenario:
    """Return a scenario cut to a tiny step, and tell on stderr what was done to it."""
    from fleetledger.simulator.run.absent_files import absent_here, classes_here  # noqa: PLC0415 - as above
    from fleetledger.simulator.scenario.tiny import tiny_step  # noqa: PLC0415 - as above

    step = tiny_step(scenario, absent_here(scenario), classes_here(scenario))
    console = console_for_people(stderr=True)
    for remark in step.remarks:
        console.print(f"tiny: {remark}", markup=False, highlight=False, soft_wrap=True)
    return step.scenario


def resume(
    root: Path, how: RunArguments | None = None, dashboard: DashboardOptions | None = None
) -> None:
    """Go on with a run, and print what came out."""
    from fleetledger.simulator.run.folder import RunFolder  # noqa: PLC0415
    from fleetledger.simulator.run.runs import resume_run, stopped_as_error  # noqa: PLC0415 - as above

    console = console_for_people()
    stored = load_scenario(str(RunFolder.open(root).scenario), ())
    options = (how or RunArguments()).options()
    with stopped_as_error(), _shown(console, stored, dashboard) as shown:
        results = resume_run(root, console, shown.make_engine, options)
        _print_end(console, results, root)
        shown.stay()


def _shown(
    console: Console, scenario: Scenario, dashboard: DashboardOptions | None
) -> RunDashboard:
    from fleetledger.simulator.run.run_dashboard import RunDashboard  # noqa: PLC0415 - as above

    shown = RunDashboard(console, scenario)
    if dashboard is not None:
        shown.start(dashboard.port)
    return shown


def list_shipped(*, as_json: bool = False) -> None:
    """Print the scenarios that ship."""
    from fleetledger.simulator.scenario.scenario_list import ScenariosReport, shipped_rows  # noqa: PLC0415

    command_output.show(ScenariosReport(scenarios=tuple(shipped_rows())), as_json=as_json)


def show(name: str) -> None:
    """Print one of them, or a study, as it was written; raise `ScenarioError` for another name."""
    if name in study_names():
        text = study_text(name)
    elif name in shipped_names():
        text = shipped_text(name)
    else:
        raise ScenarioError(
            f"scenario: none called {name!r} ships; there are {', '.join(shipped_names())}"
        )
    console_for_people().print(text, markup=False, highlight=False, soft_wrap=True, end="")


def sweep(
    scenarios: Sequence[str],
    overrides: Sequence[str],
    vary: Sequence[str],
    out: Path | None,
    beside: Beside,
    *,
    tiny: bool = False,
) -> None:
    """Run scenarios and studies with all values and seeds, or a tiny step of each, and compare."""
    from fleetledger.simulator.sweep.cases import Axis, make_cases, write_cases  # noqa: PLC0415 - as above

    folder = out or RUNS / f"sweep-{_now()}"
    cases = make_cases(folder, scenarios, overrides, [Axis.read(text) for text in vary])
    if tiny:
        cases = [replace(case, scenario=_tiny(case.scenario)) for case in cases]
    write_cases(folder, cases)
    _sweep(folder, cases, beside)


def list_studies(*, as_json: bool = False) -> None:
    """Print the studies that ship."""
    from fleetledger.simulator.scenario.scenario_list import StudiesReport, study_rows  # noqa: PLC0415

    command_output.show(StudiesReport(studies=tuple(study_rows())), as_json=as_json)


def resume_sweep(folder: Path, beside: Beside) -> None:
    """Go on with a sweep: what is done stays."""
    from fleetledger.simulator.sweep.cases import read_cases  # noqa: PLC0415 - as above

    _sweep(folder, read_cases(folder), beside)


def _sweep(folder: Path, cases: Sequence[Case], beside: Beside) -> None:
    from fleetledger.simulator.report.comparison import RunComparison  # noqa: PLC0415 - matplotlib is heavy
    from fleetledger.simulator.report.contenders import contenders_of  # noqa: PLC0415 - as above
    from fleetledger.simulator.report.run import Run  # noqa: PLC0415 - as above
    from fleetledger.simulator.sweep.runs import carry_out  # noqa: PLC0415 - as above

    console = console_for_people()

    def say(text: str) -> None:
        console.print(text, markup=False, highlight=False, soft_wrap=True)

    carry_out(cases, beside, say)
    compared = RunComparison(contenders_of([Run.open(case.folder) for case in cases]))
    compared.write(folder, "Sweep")
    console.print(compared.table())
    say(f"plots and report: {folder / 'compare.html'}")


def compare(runs: Sequence[Path], out: Path | None, *, as_json: bool = False) -> None:
    """Put runs side by side; print the table and where table and plot are."""
    from fleetledger.simulator.report.comparison import compare as compared  # noqa: PLC0415 - matplotlib is heavy

    folder = out or RUNS / f"compare-{_now()}"
    console = console_for_people(stderr=as_json)
    found = compared(*runs)
    found.write(folder)
    console.print(found.table())
    said = f"plot and report: {folder / 'compare.html'}"
    wrote = tuple(str(folder / f"compare.{kind}") for kind in ("csv", "png", "html"))
    show_action(ActionReport(said=(said,), wrote=wrote), typer.echo, as_json=as_json)


def _print_end(console: Console, results: RunResults, folder: Path) -> None:
    from fleetledger.simulator.run.summary import summary_table, summary_title  # noqa: PLC0415 - as above

    console.print(f"\n{summary_title(results)}", markup=False, highlight=False, soft_wrap=True)
    console.print(summary_table(results))
    console.print(f"report: {folder / 'report.html'}", markup=False, soft_wrap=True)


def _now() -> str:
    return time.strftime("%Y%m%d-%H%M%S")
