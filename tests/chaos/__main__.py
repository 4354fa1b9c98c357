"""Fleets in trouble: `python -m tests.chaos --seeds 0-1999`, or `... digits --seed 7`.

Many seeds of small fleets, and a summary; or a scenario's fleet through the troubles of one seed.
"""

from __future__ import annotations

import json
import logging
import shutil
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from fleetledger.runtime.console import console_for_people
from fleetledger.runtime.errors import FleetledgerError
from fleetledger.runtime.exit_codes import ExitCode
from fleetledger.runtime.pip_command import pip_install
from fleetledger.simulator.run.absent_files import absent_here
from fleetledger.simulator.scenario.loading import load_scenario
from fleetledger.simulator.scenario.model import Scenario
from fleetledger.simulator.scenario.tiny import tiny_step
from tests.chaos.errors import ChaosError
from tests.chaos.material import prepare
from tests.chaos.runs import fast_folder, run_chaos, run_undisturbed
from tests.chaos.seed_runs import read_range, run_seeds, summarise

COMMAND = "python -m tests.chaos"
app = typer.Typer()


@app.command()
def main(  # noqa: PLR0917 - each is one option of the command line
    scenario: Annotated[
        str | None, typer.Argument(help="A scenario that ships, or a TOML file.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of the scenario's troubles.")] = 0,
    changes: Annotated[
        list[str] | None, typer.Option("--set", metavar="FIELD=VALUE", help="Change the scenario.")
    ] = None,
    tiny: Annotated[bool, typer.Option("--tiny", help="Cut the scenario to a tiny step.")] = False,
    seeds: Annotated[str, typer.Option(help="First and last seed, or one.")] = "0-199",
    jobs: Annotated[int, typer.Option(min=1, help="Processes at a time.")] = 1,
    summary: Annotated[Path | None, typer.Option(help="File for the numbers, as JSON.")] = None,
    keep: Annotated[
        Path | None, typer.Option(help="Folder for what runs leave that break a promise.")
    ] = None,
    stop: Annotated[bool, typer.Option("--stop", help="Stop at the first of those.")] = False,
    rollouts: Annotated[
        bool, typer.Option("--rollouts", help="Fleets that get a candidate once they have learned.")
    ] = False,
) -> None:
    """Run fleets through troubles; exit code 1 if a promise is broken, 2 for a wrong option.

    Without SCENARIO small fleets go through the troubles of many seeds.
    """
    logging.disable(logging.WARNING)  # a broker that goes away is what we are here for
    console = console_for_people(stderr=True)
    try:
        if scenario is not None:
            _run_scenario(console, scenario, changes or [], seed, keep, tiny=tiny)
            return
        chosen = read_range(seeds)
    except FleetledgerError as error:
        console.print(str(error), markup=False, highlight=False)
        broken = isinstance(error, ChaosError) and scenario is not None
        raise typer.Exit(ExitCode.FAILED if broken else ExitCode.USAGE) from None
    _run_many(console, chosen, jobs, summary, keep, stop=stop, rollouts=rollouts)


def _run_scenario(
    console: Console, name: str, changes: list[str], seed: int, keep: Path | None, *, tiny: bool
) -> None:
    scenario = load_scenario(name, changes)
    if tiny:
        scenario = _tiny(console, scenario)

    def say(text: str) -> None:
        console.print(text, markup=False, highlight=False, soft_wrap=True)

    with fast_folder() if keep is None else nullcontext(keep) as folder:
        say("preparing data and homes")
        material = prepare(scenario, folder / "material")
        say("running the fleet undisturbed")
        undisturbed = run_undisturbed(material, folder / "undisturbed")
        say(f"running it through the troubles of seed {seed}")
        report = run_chaos(material, undisturbed, seed, folder / "disturbed")
    say(f"{report}; {report.fleet_seconds:,.0f} s of the fleet, {report.seconds:.1f} s here")
    if report.broken:
        given = "".join(f" --set {change}" for change in changes) + (" --tiny" if tiny else "")
        raise report.failure(f"{COMMAND} {name}{given} --seed {seed}")
    say(f"every promise was kept; both runs end with the aggregate {undisturbed.aggregate}")


def _tiny(console: Console, scenario: Scenario) -> Scenario:
    step = tiny_step(scenario, absent_here(scenario))
    for remark in step.remarks:
        console.print(f"tiny: {remark}", markup=False, highlight=False, soft_wrap=True)
    return step.scenario


def _run_many(
    console: Console,
    chosen: range,
    jobs: int,
    summary: Path | None,
    keep: Path | None,
    *,
    stop: bool,
    rollouts: bool,
) -> None:
    reports = []
    with fast_folder() as folder:
        for report in run_seeds(folder, chosen, jobs, console, rollouts=rollouts):
            reports.append(report)
            for broken in report.broken:
                console.print(f"{report}\n  {broken}", markup=False, highlight=False)
            if report.broken and keep is not None:
                left = f"seed-{report.seed}"
                shutil.copytree(folder / left, keep / left, symlinks=True)
            if report.broken and stop:
                break
    result = summarise(reports, " ".join([COMMAND, *sys.argv[1:]]))
    left_out = len(chosen) - len(reports)
    if left_out and not result["broken"]:
        console.print(
            f"{left_out} seeds left out: their fleets train; {pip_install('train')}",
            markup=False,
            highlight=False,
        )
    text = json.dumps(result, indent=2)
    typer.echo(text)
    if summary is not None:
        summary.write_text(text + "\n", encoding="utf-8")
    if result["broken"]:
        raise typer.Exit(ExitCode.FAILED)


if __name__ == "__main__":
    app()
