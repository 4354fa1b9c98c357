"""Put runs side by side: a table for the terminal, and CSV, picture and page in a folder."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fleetledger.simulator.errors import MetricsError, RunError
from fleetledger.simulator.metrics.over_seeds import PairedDifference
from fleetledger.simulator.metrics.score import say
from fleetledger.simulator.report.contenders import Contender, contenders_of, score_of, warnings
from fleetledger.simulator.report.frames import data_frame
from fleetledger.simulator.report.pages.renderer import Shown, render
from fleetledger.simulator.report.pictures.comparison import (
    draw_comparison,
    draw_contenders_over_time,
    draw_intervals,
)
from fleetledger.simulator.report.pictures.over_time import passes_time
from fleetledger.simulator.report.pictures.style import as_png
from fleetledger.simulator.report.run import SHORT, Run
from fleetledger.simulator.report.tables import comparison
from fleetledger.simulator.report.tables.table import Table, as_latex, as_markdown

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame
    from rich.table import Table as RichTable

_CAPTION = (
    "Left: accuracy on the test samples of all classes seen, mean over seeds, bands ± one sample "
    "standard deviation. Right: the same against what the fleet had sent and received by the end "
    "of each stage."
)


_INTERVALS = (
    "Mean over the seeds, and the 95 % interval of Student's t where a run has several: average "
    "over the stages, and after the last one."
)

_OVER_TIME = (
    "Accuracy of the newest weights by the fleet's clock, mean over seeds, bands ± one sample "
    "standard deviation; runs in which that clock stands still while devices train are left out."
)


class RunComparison:
    """Runs side by side; differences are against the first, seed by seed.

    Made by `fl.compare`. A run is called as its folder; where two are called alike, with the
    folders above.
    """

    def __init__(self, contenders: Sequence[Contender]) -> None:
        self.contenders = tuple(contenders)
        self.warnings = tuple(warnings(self.contenders))
        """What makes a run another experiment than the first, in sentences."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the runs, the first one first."""
        return tuple(item.name for item in self.contenders)

    def paired(self, name: str | None = None) -> dict[str, PairedDifference]:
        """Return each metric of the run `name` minus the first run's, over the seeds of both.

        The same seed gives both runs the same classes, stages and data. A difference has `mean`,
        sample `deviation`, `low` and `high` of the 95 % interval of Student's t (None of one seed),
        `count`, and `is_clear` where the interval leaves out zero. `name` may be left out of two
        runs. Raises `RunError` for another name, and where it is left out of more.
        """
        first, *others = self.contenders
        chosen = [item for item in others if name in {None, item.name}]
        if len(chosen) != 1:
            raise RunError(
                f"paired: {name!r}; give one of {', '.join(item.name for item in others)}"
            )
        found = {one: chosen[0].minus(first, one) for one in chosen[0].results.summary}
        return {one: difference for one, difference in found.items() if difference is not None}

    def to_frame(self) -> DataFrame:
        """Return a row per run and metric as a pandas DataFrame; columns as in `compare.csv`.

        Raises `RunError` without pandas, which the extra `frames` installs.
        """
        head, *rows = comparison.csv_rows(self.contenders)
        told = [dict(zip(map(str, head), row, strict=True)) for row in rows]
        return data_frame(
            [{name: None if value == "" else value for name, value in row.items()} for row in told]
        )

    def to_markdown(self, metrics: Sequence[str] | None = None) -> str:
        """Return a row per run in Markdown, mean ± deviation over seeds; all metrics if None."""
        return as_markdown(self._table(metrics))

    def to_latex(self, metrics: Sequence[str] | None = None) -> str:
        """Return the same as a LaTeX `tabular` with the rules of `booktabs`."""
        return as_latex(self._table(metrics))

    def figure(self, name: str = "accuracy") -> Figure:
        """Return a matplotlib Figure: `accuracy`, `intervals`, or `over_time`.

        Raises `RunError` for another name.
        """
        if name not in _FIGURES:
            raise RunError(f"figure: {name!r}; give one of {', '.join(_FIGURES)}")
        return _FIGURES[name](self.contenders)

    def write(self, folder: str | os.PathLike[str], title: str = "Runs side by side") -> None:
        """Write compare.csv, pictures and compare.html into a folder, which is made."""
        out = Path(folder)
        out.mkdir(parents=True, exist_ok=True)
        comparison.write_comparison_csv(out / "compare.csv", self.contenders)
        score = score_of(self.contenders)
        curves, intervals = (as_png(self.figure(name)) for name in ("accuracy", "intervals"))
        pictures = [
            Shown("compare.png", say(score, "Accuracy and bytes"), say(score, _CAPTION), curves),
            Shown("intervals.png", say(score, "Accuracy by run"), _INTERVALS, intervals),
        ]
        if any(passes_time(item.results) for item in self.contenders):
            title = say(score, "Accuracy over the fleet's time")
            drawn = as_png(self.figure("over_time"))
            pictures.append(Shown("over_time.png", title, say(score, _OVER_TIME), drawn))
        for picture in pictures:
            (out / picture.name).write_bytes(picture.png)
        page = _page(title, self.contenders, list(self.warnings), pictures)
        (out / "compare.html").write_text(page, encoding="utf-8")

    def table(self) -> RichTable:
        """Return the main numbers for a terminal."""
        return comparison.terminal_table(self.contenders, self.warnings)

    def _table(self, metrics: Sequence[str] | None) -> Table:
        known = dict.fromkeys(name for item in self.contenders for name in item.results.summary)
        chosen = known if metrics is None else [SHORT.get(name, name) for name in metrics]
        for name in chosen:
            if name not in known:
                raise MetricsError(f"metric: {name!r}; give one of {', '.join(known)}")
        return comparison.means_table(self.contenders, chosen)


def compare(
    first: Run | str | os.PathLike[str], *others: Run | str | os.PathLike[str]
) -> RunComparison:
    """Return runs side by side: `Run` values, or folders of finished runs.

    Raises `RunError` without a second run, and for a folder without good results.
    """
    runs = [told if isinstance(told, Run) else Run.open(told) for told in (first, *others)]
    if not others:
        raise RunError("runs: 1 given; give the folders of at least 2 runs")
    return RunComparison(contenders_of(runs))


_FIGURES: dict[str, Callable[[Sequence[Contender]], Figure]] = {
    "accuracy": draw_comparison,
    "intervals": draw_intervals,
    "over_time": draw_contenders_over_time,
}


def _page(
    title: str, contenders: Sequence[Contender], told: list[str], pictures: Sequence[Shown]
) -> str:
    return render(
        "compare.html",
        title=title,
        runs=[(item.name, item.results.scenario.title, str(item.folder)) for item in contenders],
        warnings=told,
        pictures=pictures,
        means=comparison.means_table(contenders),
        intervals=comparison.intervals_table(contenders),
        differences=comparison.differences_table(contenders),
        settings=comparison.settings_table(contenders),
    )
