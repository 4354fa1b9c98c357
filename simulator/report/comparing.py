"""Put runs side by side: a table for the terminal, and CSV, picture and page in a folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from simulator.errors import RunError
from simulator.metrics.score import say
from simulator.report.contenders import Contender, read_contenders, score_of, warnings
from simulator.report.pages.rendering import Shown, render
from simulator.report.pictures.comparison import draw_comparison
from simulator.report.pictures.style import as_png
from simulator.report.tables.comparison import (
    differences_table,
    means_table,
    settings_table,
    terminal_table,
    write_comparison_csv,
)

if TYPE_CHECKING:
    from rich.table import Table

_CAPTION = (
    "Left: accuracy on the test samples of all classes seen, mean over seeds, bands ± one sample "
    "standard deviation. Right: the same against what the fleet had sent and received by the end "
    "of each stage."
)


def compare_runs(folders: Sequence[Path], out: Path) -> Table:
    """Write compare.csv, compare.png and compare.html into `out`; return the table.

    Differences are against the first run, over the seeds that both have. Raises `RunError` for
    fewer than two folders, and for one without good results.
    """
    if len(folders) < 2:
        raise RunError(f"runs: {len(folders)} given; give the folders of at least two runs")
    contenders = read_contenders(folders)
    told = warnings(contenders)
    out.mkdir(parents=True, exist_ok=True)
    write_comparison_csv(out / "compare.csv", contenders)
    score = score_of(contenders)
    picture = Shown(
        "compare.png",
        say(score, "Accuracy and bytes"),
        say(score, _CAPTION),
        as_png(draw_comparison(contenders)),
    )
    (out / picture.name).write_bytes(picture.png)
    (out / "compare.html").write_text(_page(contenders, told, picture), encoding="utf-8")
    return terminal_table(contenders, told)


def _page(contenders: Sequence[Contender], told: list[str], picture: Shown) -> str:
    return render(
        "compare.html",
        title="Runs side by side",
        runs=[(item.name, item.results.scenario.title, str(item.folder)) for item in contenders],
        warnings=told,
        picture=picture,
        means=means_table(contenders),
        differences=differences_table(contenders),
        settings=settings_table(contenders),
    )
