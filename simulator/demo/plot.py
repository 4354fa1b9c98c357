"""The picture at the end: accuracy after each stage, on the devices and pooled."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from simulator.demo.results import StageResult, shortened, task_scores

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_DEVICES, _POOLED = "#1b6ca8", "#d1495b"
_DOTS_PER_INCH = 150


def draw_accuracy(
    path: Path,
    results: Sequence[StageResult],
    pooled: Sequence[float],
    titles: tuple[str, str],
) -> None:
    """Write a PNG with one curve for the devices, one for `pooled`, and one grey one per task."""
    # Matplotlib takes half a second to import; figures made directly need no display.
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415
    from matplotlib.figure import Figure  # noqa: PLC0415

    figure = Figure(figsize=(9, 5.4), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    _draw_tasks(axes, results)
    _draw_curves(axes, results, pooled)
    _label(axes, results)
    title, subtitle = titles
    figure.suptitle(title)
    axes.set_title(subtitle, fontsize=9, color="0.35")
    figure.legend(loc="outside lower center", ncols=3, frameon=False, fontsize=9)
    figure.savefig(path, dpi=_DOTS_PER_INCH)


def _draw_tasks(axes: Axes, results: Sequence[StageResult]) -> None:
    accuracy = 100 * task_scores(results).accuracy()
    stages = [result.stage for result in results]
    for task in range(len(results)):
        label = "devices, classes of one stage" if task == 0 else None
        axes.plot(
            stages[task:], accuracy[task:, task], ".-", color="0.75", linewidth=1, label=label
        )


def _draw_curves(axes: Axes, results: Sequence[StageResult], pooled: Sequence[float]) -> None:
    stages = [result.stage for result in results]
    reference = [100 * value for value in pooled]
    devices = [100 * result.accuracy for result in results]
    axes.plot(
        stages,
        reference,
        "s--",
        color=_POOLED,
        markersize=9,
        markerfacecolor="none",
        label="pooled images, ridge regression in float64",
    )
    axes.plot(stages, devices, "o-", color=_DEVICES, linewidth=2, label="devices, all seen classes")
    for stage, value in zip(stages, devices, strict=True):
        axes.annotate(
            f"{value:.1f}",
            (stage, value),
            xytext=(0, 15),
            textcoords="offset points",
            ha="center",
            color=_DEVICES,
        )


def _label(axes: Axes, results: Sequence[StageResult]) -> None:
    axes.set_xticks(
        [result.stage for result in results],
        [f"{result.stage}\n+ {shortened(result.class_names, ', ')}" for result in results],
    )
    axes.set_xlabel("stage, and the classes it added")
    axes.set_ylabel("accuracy on all test images of the seen classes, %")
    low = min(_lowest(results), 95.0)
    axes.set_ylim(max(0.0, low - 1), 100 + 0.1 * (101 - low))  # room for the numbers
    axes.set_yticks([tick for tick in axes.get_yticks() if low - 1 <= tick <= 100])
    axes.set_xlim(results[0].stage - 0.3, results[-1].stage + 0.3)
    axes.grid(axis="y", color="0.92")
    axes.spines[["top", "right"]].set_visible(False)


def _lowest(results: Sequence[StageResult]) -> float:
    """Lowest accuracy of any task after any stage, in percent."""
    scores = task_scores(results)
    return min(
        100 * float(scores.correct[t, i] / scores.total[t, i])
        for t in range(scores.stages)
        for i in range(t + 1)
    )
