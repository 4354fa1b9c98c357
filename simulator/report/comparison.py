"""Put runs side by side: a table for the terminal, and CSV, picture and page in a folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fleetledger.runtime.count_words import count_of
from fleetledger.simulator.errors import RunError
from fleetledger.simulator.metrics.score import say
from fleetledger.simulator.report.contenders import Contender, read_contenders, score_of, warnings
from fleetledger.simulator.report.pages.renderer import Shown, render
from fleetledger.simulator.report.pictures.comparison import draw_comparison, draw_intervals
from fleetledger.simulator.report.pictures.style import as_png
from fleetledger.simulator.report.tables import comparison

if TYPE_CHECKING:
    from rich.table import Table

_CAPTION = (
    "Left: accuracy on the test samples of all classes seen, mean over seeds, bands ± one sample "
    "standard deviation. Right: the same against what the fleet had sent and received by the end "
    "of each stage."
)


_INTERVALS = (
    "Mean over the seeds, and the 95 % interval of Student's t where a run has several: average "
    "over the stages, and after the last one."
)


def compare_runs(
    folders: Sequence[Path], out: Path, title: str = "Runs side by side", least: int = 2
) -> Table:
    """Write compare.csv, two pictures and compare.html into `out`; return the table.

    Differences are against the first run, over the seeds that both have. Raises `RunError` for
    fewer than `least` folders, and for one without good results.
    """
    if len(folders) < least:
        raise RunError(
            f"runs: {len(folders)} given; give the folders of at least {count_of(least, 'run')}"
        )
    contenders = read_contenders(folders)
    told = warnings(contenders)
    out.mkdir(parents=True, exist_ok=True)
    comparison.write_comparison_csv(out / "compare.csv", contenders)
    score = score_of(contenders)
    curves, intervals = as_png(draw_comparison(contenders)), as_png(draw_intervals(contenders))
    pictures = [
        Shown("compare.png", say(score, "Accuracy and bytes"), say(score, _CAPTION), curves),
        Shown("intervals.png", say(score, "Accuracy by run"), _INTERVALS, intervals),
    ]
    for picture in pictures:
        (out / picture.name).write_bytes(picture.png)
    (out / "compare.html").write_text(_page(title, contenders, told, pictures), encoding="utf-8")
    return comparison.terminal_table(contenders, told)


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
