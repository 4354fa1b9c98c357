"""The command of a table: cells are run one by one, and each is stored when it has ended."""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import RESULTS_FOLDER
from benchmarks.arguments import names_among
from benchmarks.machine import describe_machine
from benchmarks.papers.footing import cells
from benchmarks.papers.footing.cells import Step
from benchmarks.papers.footing.plot import Curve, draw
from fleetledger.simulator.scenario.loading import DATA_VARIABLE

Results = Mapping[str, Any]
NextSteps = Callable[[list[str], list[int], Callable[[], Results]], Iterable[Step]]
"""From rows, seeds and what is known by then to the cells that are still to be run."""
CarriesOut = Callable[[Step, Results], Results]
"""From a cell and what is known to its numbers."""


@dataclass(frozen=True)
class TableCommand:
    """What the command of one table asks and writes."""

    claim: str
    """The name of its file of results."""
    rows: Collection[str]
    seeds: Sequence[int]
    packages: tuple[str, ...]
    """Packages whose versions are told beside the results."""
    tables: Callable[[Results], str]
    """Makes the table, which lies beside the results."""
    curves: Callable[[Results], Sequence[Curve]]
    """Lines of the picture beside it."""
    unit: str
    """What the picture counts to the right."""

    def arguments(self, about: str | None) -> argparse.Namespace:
        """Read the command line; `about` is the docstring of the program."""
        data = Path(os.environ.get(DATA_VARIABLE, "."))
        runs = Path(tempfile.gettempdir()) / self.claim
        parser = argparse.ArgumentParser(description=(about or "").splitlines()[0])
        parser.add_argument("--core", type=_path, default=_path(data / "cifar100.npz"))
        parser.add_argument("--methods", type=names_among(self.rows), default=list(self.rows))
        parser.add_argument("--seeds", type=int, nargs="*", default=list(self.seeds))
        parser.add_argument("--minutes", type=float, default=float("inf"))
        parser.add_argument("--runs", type=_path, default=runs)
        parser.add_argument("--out", type=_path, default=RESULTS_FOLDER / f"{self.claim}.json")
        parser.add_argument("--tables", action="store_true", help="measure nothing")
        return parser.parse_args()

    def run(
        self, arguments: argparse.Namespace, steps: NextSteps, prepare: Callable[[], CarriesOut]
    ) -> None:
        """Measure and store cell by cell, or write alone what is made of the stored ones.

        `prepare` makes what all cells need.
        """
        out = arguments.out
        if arguments.tables:
            self._write(out, cells.read(out, self.claim))
            return
        import torch

        torch.set_num_threads(1)
        carry_out = prepare()
        ends = time.monotonic() + 60 * arguments.minutes
        for step in steps(arguments.methods, arguments.seeds, lambda: cells.read(out, self.claim)):
            if time.monotonic() > ends:
                break
            found = carry_out(step, cells.read(out, self.claim))
            print(step.method, step.kind, step.key, json.dumps(found), flush=True)
            machine = {**describe_machine("numpy", *self.packages), "threads": 1}
            results = cells.added(cells.read(out, self.claim), step, found)
            self._write(out, {**results, "machine": machine})

    def _write(self, path: Path, results: Results) -> None:
        cells.write(path, results)
        path.with_suffix(".md").write_text(self.tables(results), encoding="utf-8")
        draw(self.curves(results), self.unit, path.with_suffix(".png"))


def _path(text: str | Path) -> Path:
    return Path(text).expanduser().absolute()
