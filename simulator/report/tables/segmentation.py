"""Tables of runs that give pixels classes: IoU by class, by task, and what the network costs."""

from __future__ import annotations

import numpy as np

from fleetledger.simulator.metrics.results import RunResults
from fleetledger.simulator.metrics.seed_metrics import StageMetrics
from fleetledger.simulator.report import curves
from fleetledger.simulator.report.numbers import NOTHING, percent, second_scale
from fleetledger.simulator.report.tables.table import Table, TableColumn, from_columns, stage_column


def class_table(results: RunResults) -> Table:
    """Return the IoU of background and of each class after each stage."""
    came = {name: str(stage.stage) for stage in results.first.stages for name in stage.class_names}
    rows = tuple(
        (name, came.get(name, NOTHING), *(_cell(value) for value in found))
        for name, found in curves.class_iou(results).items()
    )
    head = ("class", "came with stage", *_after(results))
    several = len(results.seeds) > 1
    note = "Means over the seeds that had seen the class; its stage is that of the first seed."
    return Table("IoU by class", head, rows, note if several else "")


def task_table(results: RunResults) -> Table:
    """Return the mIoU of the classes of each stage after each stage."""
    rows = tuple(
        (str(task), *(_cell(value) for value in column))
        for task, column in enumerate(curves.accuracy_matrix(results).T, start=1)
    )
    head = ("classes of stage", *_after(results))
    note = "Without background. Means over seeds."
    return Table("mIoU by task", head, rows, note)


def has_costs(results: RunResults) -> bool:
    """Tell whether the exported network was timed on scenes."""
    return any(stage.inference is not None for stage in results.first.stages)


def cost_table(results: RunResults) -> Table:
    """Return seconds of a training step and of a scene, and the memory, stage by stage."""
    first = next(s.inference for s in results.first.stages if s.inference is not None)
    columns = (
        stage_column(results.stages),
        TableColumn("training steps", _counts(curves.by_stage(results, _steps))),
        _seconds("a training step", curves.by_stage(results, _seconds_per_step)),
        _seconds("a test scene in ONNX Runtime", curves.by_stage(results, _seconds_per_scene)),
        TableColumn(
            "peak memory, MiB", _counts(curves.by_stage(results, lambda s: s.peak_memory_mib))
        ),
    )
    note = (
        "Steps are those of all devices, and a step's seconds their computing by their steps, "
        f"where devices tell them. A scene went through both ONNX files with {first.provider}, "
        f"{first.batch} at a time; reading and preparing it is not in its seconds. Memory is the "
        "highest so far of the simulating process, that of a GPU not in it. Means over seeds."
    )
    return from_columns("Costs of the network", columns, note)


def _after(results: RunResults) -> list[str]:
    return [f"after stage {stage}, %" for stage in range(1, results.stages + 1)]


def _cell(value: float) -> str:
    return percent(float(value)) if np.isfinite(value) else NOTHING


def _counts(values: curves.Floats) -> tuple[str, ...]:
    return tuple(
        f"{v:,.0f}" if np.isfinite(v) else NOTHING for v in curves.over_known(list(values))
    )


def _seconds(head: str, values: curves.Floats) -> TableColumn:
    """Return a column with one unit, that of the largest value; milliseconds below a second."""
    mean = curves.over_known(list(values))
    known = mean[np.isfinite(mean)]
    largest = float(known.max()) if known.size else 0.0
    scale, unit = (0.001, "ms") if largest < 1 else second_scale(largest)
    cells = tuple(f"{value / scale:,.1f}" if np.isfinite(value) else NOTHING for value in mean)
    return TableColumn(f"{head}, {unit}", cells)


def _steps(stage: StageMetrics) -> float | None:
    steps = [each.steps for each in stage.rounds if each.steps is not None]
    return float(sum(steps)) if steps else None


def _seconds_per_step(stage: StageMetrics) -> float | None:
    told = [each for each in stage.rounds if each.steps and each.training_seconds is not None]
    steps = sum(each.steps or 0 for each in told)
    return sum(each.training_seconds or 0.0 for each in told) / steps if steps else None


def _seconds_per_scene(stage: StageMetrics) -> float | None:
    return None if stage.inference is None else stage.inference.seconds_per_scene
