"""`python -m fleetledger.simulator.chaos --seeds 0-1999`: many seeds, and a summary."""

from __future__ import annotations

import json
import logging
import shutil
import sys
from pathlib import Path
from typing import Annotated

import typer

from fleetledger.schemas.console import console_for_people
from fleetledger.schemas.exit_codes import ExitCode
from fleetledger.schemas.pip_command import pip_install
from fleetledger.simulator.chaos.runs import fast_folder
from fleetledger.simulator.chaos.seed_runs import read_range, run_seeds, summarise
from fleetledger.simulator.errors import ChaosError


def main(
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
    """Run small fleets through the troubles of many seeds; exit code 1 if a promise is broken."""
    logging.disable(logging.WARNING)  # a broker that goes away is what we are here for
    console = console_for_people(stderr=True)
    try:
        chosen = read_range(seeds)
    except ChaosError as error:
        console.print(str(error), markup=False, highlight=False)
        raise typer.Exit(ExitCode.USAGE) from None
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
    result = summarise(reports, " ".join(["python -m fleetledger.simulator.chaos", *sys.argv[1:]]))
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
    typer.run(main)
