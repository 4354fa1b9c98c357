"""One look for all pictures: colours that colour-blind people tell apart, thin axes, no clutter.

Figures are made directly, without pyplot and without touching matplotlib's settings, so that they
need no display and are the same wherever they are drawn.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from io import BytesIO
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from fleetledger.simulator.errors import RunError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BLUE, VERMILION, GREEN = "#0072b2", "#d55e00", "#009e73"
PURPLE, ORANGE, SKY = "#aa4499", "#e69f00", "#56b4e9"
PALETTE = (BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY, "#332288", "#882255")
INK, MUTED, GRID = "#1f2933", "#66727f", "#e4e8ec"
_DOTS_PER_INCH = 220
KINDS = ("png", "svg", "pdf")
"""Formats of pictures."""
_LEGEND_CHARACTERS = 74
"""That fit beside each other below a figure."""


def new_figure(width: float = 5.8, height: float = 4.4) -> Figure:
    """Return an empty figure of so many inches that lays itself out."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415 - half a second
    from matplotlib.figure import Figure  # noqa: PLC0415
    from matplotlib.layout_engine import ConstrainedLayoutEngine  # noqa: PLC0415

    layout = ConstrainedLayoutEngine(w_pad=0.1, h_pad=0.1)
    figure = Figure(figsize=(width, height), layout=layout)
    FigureCanvasAgg(figure)
    return figure


def as_png(figure: Figure) -> bytes:
    """Return the figure as PNG; the same figure gives the same bytes."""
    buffer = BytesIO()
    figure.savefig(buffer, format="png", dpi=_DOTS_PER_INCH, metadata={"Software": None})
    return buffer.getvalue()


def render(figure: Figure, kind: str) -> bytes:
    """Return the figure as `svg`, `pdf` or `png`; the same figure gives the same bytes.

    Raises `RunError` for another kind.
    """
    if kind not in KINDS:
        raise RunError(f"figures: {kind!r}; give some of {', '.join(KINDS)}")
    if kind == "png":
        return as_png(figure)
    from matplotlib import rc_context  # noqa: PLC0415 - as above

    buffer = BytesIO()
    when = {"svg": "Date", "pdf": "CreationDate"}[kind]
    with rc_context({"svg.hashsalt": "fleetledger"}):
        figure.savefig(buffer, format=kind, metadata={when: None})
    return buffer.getvalue()


def dress(axes: Axes, title: str = "", *, grid: str = "y") -> None:
    """Give axes the common look; `grid` is `x`, `y` or empty."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(MUTED)
    axes.tick_params(colors=MUTED, labelsize=9, labelcolor=INK)
    axes.xaxis.label.set(color=INK, size=9.5)
    axes.yaxis.label.set(color=INK, size=9.5)
    axes.set_axisbelow(True)
    if grid == "x":
        axes.grid(axis="x", color=GRID, linewidth=0.8)
    elif grid:
        axes.grid(axis="y", color=GRID, linewidth=0.8)
    if title:
        axes.set_title(title, loc="left", fontsize=9.5, color=INK)


def stage_ticks(stages: int) -> list[int]:
    """Return the stages that are named: all of up to 12, of more 1 and multiples of 5, 10, ..."""
    step = next((step for step in (1, 5, 10, 20, 50, 100) if stages <= 12 * step), 200)
    return sorted({1, *range(step, stages + 1, step)})


def stage_axis(axes: Axes, stages: int, classes_seen: Sequence[int] = ()) -> None:
    """Write the stages from 1 along x, with the classes seen below where there is room."""
    ticks = stage_ticks(stages)
    if classes_seen and len(ticks) == stages:
        labels = [f"{tick}\n{classes_seen[tick - 1]}" for tick in ticks]
        axes.set_xlabel("stage, and the classes seen by then")
    else:
        labels = [str(tick) for tick in ticks]
        axes.set_xlabel("stage")
    axes.set_xticks([float(tick) for tick in ticks], labels)
    axes.set_xlim(0.6, stages + 0.4)


def percent_axis(axes: Axes, values: Iterable[float]) -> None:
    """Fit y to percentages: room above and below, never beyond 0 and 100."""
    held = np.array([value for value in values if np.isfinite(value)])
    low, high = (float(held.min()), float(held.max())) if len(held) else (0.0, 100.0)
    room = max(0.6, 0.14 * (high - low))
    axes.set_ylim(max(0.0, low - room), min(100.0, high) + room)
    axes.set_yticks([tick for tick in axes.get_yticks() if low - room <= tick <= 100])
    axes.set_ylim(max(0.0, low - room), min(100.0, high) + room)


def line_with_band(
    axes: Axes, values: NDArray[np.float64], color: str, label: str, marker: str = "o"
) -> None:
    """Draw the mean of `values` (seeds, stages), and ± one sample deviation as a band."""
    stages = np.arange(1, values.shape[1] + 1)
    mean = values.mean(axis=0)
    if len(values) > 1:
        deviation = values.std(axis=0, ddof=1)
        axes.fill_between(
            stages, mean - deviation, mean + deviation, color=color, alpha=0.16, linewidth=0
        )
    axes.plot(stages, mean, marker=marker, color=color, linewidth=2, markersize=5, label=label)


def legend_below(figure: Figure) -> None:
    """Put one legend for all axes below the figure, in as many columns as its texts leave room."""
    handles, labels = [], []
    for axes in figure.axes:
        found = axes.get_legend_handles_labels()
        handles += found[0]
        labels += found[1]
    longest = max((len(label) for label in labels), default=0)
    in_one_row = sum(len(label) + 6 for label in labels) <= _LEGEND_CHARACTERS
    columns = len(labels) if in_one_row else max(1, _LEGEND_CHARACTERS // (longest + 6))
    figure.legend(
        handles,
        labels,
        loc="outside lower center",
        ncols=max(1, columns),
        frameon=False,
        fontsize=9,
        labelcolor=INK,
    )


def logarithmic(axes: Axes, which: Literal["x", "y"]) -> None:
    """Make an axis logarithmic, with plain numbers at 1, 2, 5, 10 and so on."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator  # noqa: PLC0415

    axes.set(**{f"{which}scale": "log"})
    axis = axes.xaxis if which == "x" else axes.yaxis
    axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _position: f"{value:g}"))


def whole_numbers(axes: Axes) -> None:
    """Let ticks along x be whole numbers."""
    from matplotlib.ticker import MaxNLocator  # noqa: PLC0415

    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
