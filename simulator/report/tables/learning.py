"""What was learned: headline numbers, published ones beside them, seeds, stages and rounds."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from fleetledger.simulator.metrics.headline import metric_of, metrics_of
from fleetledger.simulator.metrics.results import RunResults
from fleetledger.simulator.metrics.seed_metrics import StageMetrics
from fleetledger.simulator.report.curves import by_stage
from fleetledger.simulator.report.numbers import NOTHING, show, show_interval, show_summary
from fleetledger.simulator.report.tables import table
from fleetledger.simulator.scenario.sections import PublishedCurve

_MOST_NAMES = 6
"""Classes of a stage up to which all are named."""
_OF_SEEDS = (
    "average_incremental_accuracy",
    "final_accuracy",
    "forgetting",
    "worst_device_accuracy",
    "bytes_up",
    "bytes_down",
)


def headline_table(results: RunResults) -> table.Table:
    """Return every headline number that is known, with its meaning; its interval over seeds."""
    several = len(results.seeds) > 1
    rows = tuple(
        (
            metric.said_title(results.score),
            show_summary(results.summary[metric.name], metric.unit),
            *((show_interval(results.summary[metric.name], metric.unit),) if several else ()),
            metric.said_meaning(results.score),
        )
        for metric in metrics_of(results.summary)
    )
    head = ("number", "value", "95 % interval", "meaning")
    note = (
        "Mean ± sample standard deviation over the seeds; the interval is that of Student's t for "
        "the mean."
    )
    if several:
        return table.Table("Headline numbers", head, rows, note)
    return table.Table("Headline numbers", (*head[:2], head[-1]), rows, "One seed.")


def published_table(results: RunResults) -> table.Table:
    """Return what papers print for the protocol, with this run's distance from it."""
    ours = tuple(
        results.summary[name].mean for name in ("average_incremental_accuracy", "final_accuracy")
    )
    mine = ("this run", show(ours[0], "share"), NOTHING, show(ours[1], "share"), NOTHING, "")
    rows = tuple(_published_row(curve, ours) for curve in results.scenario.published)
    head = ("", "average", "this run minus it", "last stage", "this run minus it", "source")
    return table.Table("Published for this protocol", head, (mine, *rows))


def _published_row(curve: PublishedCurve, ours: tuple[float, ...]) -> tuple[str, ...]:
    average, final = printed_numbers(curve)
    cells = []
    for printed, mine in ((average, ours[0]), (final, ours[1])):
        cells += [show(printed, "share"), _distance(mine, printed)]
    return (curve.label, *cells, curve.source)


def printed_numbers(curve: PublishedCurve) -> tuple[float | None, float | None]:
    """Return average and last accuracy as shares; from the curve where they are not printed."""
    average, final = curve.average, curve.final
    if curve.accuracy:
        average = float(np.mean(curve.accuracy)) if average is None else average
        final = curve.accuracy[-1] if final is None else final
    return (
        None if average is None else average / 100,
        None if final is None else final / 100,
    )


def _distance(mine: float, printed: float | None) -> str:
    return NOTHING if printed is None else show(mine - printed, "points", sign=True)


def seed_table(results: RunResults) -> table.Table:
    """Return the main numbers of each seed, and the digest of its last model's head."""
    metrics = [metric_of(name) for name in _OF_SEEDS if name in results.summary]
    rows = tuple(
        (
            str(seed),
            *(show(found.headline.get(metric.name), metric.unit) for metric in metrics),
            found.stages[-1].head.short,
        )
        for seed, found in results.seeds.items()
    )
    head = ("seed", *(metric.said_title(results.score) for metric in metrics), "head")
    note = (
        "The last column begins the SHA-256 of the last head's weights: a run of the same scenario "
        "on the same platform gives the same."
    )
    return table.Table("Seed by seed", head, rows, note)


def stage_table(results: RunResults) -> table.Table:
    """Return accuracy, forgetting, recall and F1 of each stage, as far as they are known."""
    first = results.first.stages[: results.stages]
    columns = (
        table.stage_column(results.stages),
        table.shares(results.say("accuracy"), by_stage(results, lambda stage: stage.accuracy)),
        *_known("measured by devices", results, lambda stage: stage.accuracy_on_devices),
        *_known(
            "own test parts",
            results,
            lambda stage: own.mean if (own := stage.own_accuracy) else None,
        ),
        *_known("pooled images", results, lambda stage: stage.pooled_accuracy),
        table.shares("old classes", by_stage(results, lambda stage: stage.old_accuracy)),
        table.shares("new classes", by_stage(results, lambda stage: stage.new_accuracy)),
        table.points("forgetting", by_stage(results, lambda stage: stage.forgetting)),
        *_known("recall", results, lambda stage: stage.recall),
        *_known("F1", results, lambda stage: stage.f1),
        *_known(results.say("accuracy by tasks"), results, lambda stage: stage.accuracy_by_tasks),
        *_known("recall as in LGA", results, lambda stage: stage.recall_batchwise128),
        *_known("F1 as in LGA", results, lambda stage: stage.f1_batchwise128),
        table.TableColumn(
            "classes that came", tuple(class_list(stage.class_names) for stage in first)
        ),
    )
    told = [
        "Old classes are those of earlier stages, with background." if _of_pixels(results) else "",
        "The classes are those of the first seed." if len(results.seeds) > 1 else "",
    ]
    return table.from_columns("Stage by stage", columns, " ".join(filter(None, told)))


def domain_table(results: RunResults) -> table.Table:
    """Return the accuracy in each domain after each stage."""
    names = dict.fromkeys(name for stage in results.first.stages for name in stage.domain_accuracy)
    columns = [table.shares(name, by_stage(results, partial(_in_domain, name))) for name in names]
    note = "On the test samples of all classes seen, of domains that have come and that have not."
    return table.from_columns(
        "Accuracy by domain", (table.stage_column(results.stages), *columns), note
    )


def _in_domain(name: str, stage: StageMetrics) -> float | None:
    return stage.domain_accuracy.get(name)


def has_domains(results: RunResults) -> bool:
    """Tell whether the data set says of which domain a sample is."""
    return any(stage.domain_accuracy for stage in results.first.stages)


def _known(
    head: str, results: RunResults, take: Callable[[StageMetrics], float | None]
) -> tuple[table.TableColumn, ...]:
    """Return a column of shares where any is known."""
    values = by_stage(results, take)
    return (table.shares(head, values),) if np.isfinite(values).any() else ()


def _of_pixels(results: RunResults) -> bool:
    return results.score == "mIoU"


def class_list(names: tuple[str, ...]) -> str:
    """Return the names in a row; of many the first few and how many there are."""
    if len(names) <= _MOST_NAMES:
        return ", ".join(names)
    return f"{', '.join(names[: _MOST_NAMES - 1])} … ({len(names)})"


def round_table(results: RunResults) -> table.Table:
    """Return each stage's rounds: how many, and what the first and the last measured."""
    rows = []
    for stage in results.first.stages:
        if not stage.rounds:
            continue
        first, last = stage.rounds[0], stage.rounds[-1]
        rows.append(
            (
                str(stage.stage),
                str(len(stage.rounds)),
                f"{last.counted} of {last.asked}",
                show(first.accuracy, "share"),
                show(last.accuracy, "share"),
                NOTHING if last.client_drift is None else f"{last.client_drift:.3f}",
                NOTHING if last.loss is None else f"{last.loss:.4g}",
            )
        )
    head = (
        "stage",
        "rounds",
        "devices in the last",
        results.say("accuracy after the first"),
        "after the last",
        "client drift in the last",
        "loss in the last",
    )
    return table.Table("Rounds of the first seed", head, tuple(rows))


def has_rounds(results: RunResults) -> bool:
    """Tell whether the method learned in rounds."""
    return any(stage.rounds for stage in results.first.stages)
