"""The page of one run: everything that was measured, the pictures, and the scenario."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fleetledger.runtime.count_words import count_of
from fleetledger.simulator.metrics.headline import metric_of
from fleetledger.simulator.metrics.results import RunResults
from fleetledger.simulator.report.numbers import scale_of, show
from fleetledger.simulator.report.pages.renderer import Shown, render
from fleetledger.simulator.report.pictures.class_map import has_class_iou
from fleetledger.simulator.report.tables import fleet, learning, novelty, segmentation
from fleetledger.simulator.report.tables.costs import profile_table, time_table, wire_table
from fleetledger.simulator.report.tables.rollouts import gate_table, rollout_table, verdict_sentence
from fleetledger.simulator.report.tables.table import Table
from fleetledger.simulator.report.tables.traffic_by_kind import (
    has_kinds,
    has_shared,
    kind_table,
    shared_table,
)
from fleetledger.simulator.scenario.loading import scenario_to_toml

_CARDS = (
    "average_incremental_accuracy",
    "final_accuracy",
    "forgetting",
    "worst_device_accuracy",
    "bytes_per_device",
    "wall_seconds",
)
_HALVES = ("matrix.png", "confusion.png")
"""Pictures that stand beside each other on a wide page."""


@dataclass(frozen=True)
class PageCard:
    """One large number."""

    title: str
    value: str
    beside: str


@dataclass(frozen=True)
class ToldRollout:
    """The first seed's verdict in a sentence, every seed's end, and the first one's gates."""

    sentence: str
    seeds: Table
    gates: Table


def run_page(results: RunResults, pictures: Sequence[Shown]) -> str:
    """Return `report.html`."""
    scenario = results.scenario
    return render(
        "run.html",
        title=scenario.title,
        description=scenario.description,
        facts=facts_of(results),
        cards=[_card(results, name) for name in _CARDS if name in results.summary],
        published=learning.published_table(results) if scenario.published else None,
        headline=learning.headline_table(results),
        seeds=learning.seed_table(results),
        notes=notes_of(results),
        pictures=pictures,
        halves=_HALVES,
        stages=learning.stage_table(results),
        rounds=learning.round_table(results) if learning.has_rounds(results) else None,
        tasks=segmentation.task_table(results) if has_class_iou(results) else None,
        classes=segmentation.class_table(results) if has_class_iou(results) else None,
        domains=learning.domain_table(results) if learning.has_domains(results) else None,
        fleet=fleet.fleet_table(results),
        devices=fleet.device_table(results),
        detection=fleet.detection_table(results) if fleet.was_detecting(results) else None,
        noticing=novelty.noticing_table(results) if novelty.has_novelty_checks(results) else None,
        wire=wire_table(results),
        kinds=kind_table(results) if has_kinds(results) else None,
        shared=shared_table(results) if has_shared(results) else None,
        proxy=novelty.proxy_table(results) if novelty.has_proxy(results) else None,
        profile=profile_table(results),
        time=time_table(results),
        network_costs=segmentation.cost_table(results) if segmentation.has_costs(results) else None,
        rollout=_told_rollout(results),
        plan=fleet.plan_table(results),
        scenario=scenario_to_toml(scenario),
        command="fleetledger simulate scenario.toml --out again",
        machine=_machine_table(results),
    )


def _told_rollout(results: RunResults) -> ToldRollout | None:
    """Return what the page says of the rollout at the end; None without one."""
    record = results.first.rollout
    if record is None:
        return None
    return ToldRollout(verdict_sentence(record), rollout_table(results), gate_table(record))


def facts_of(results: RunResults) -> list[str]:
    """Return what kind of run it was, in a few words each."""
    scenario, first = results.scenario, results.first
    classes = sum(len(stage.class_names) for stage in first.stages)
    seeds = ", ".join(str(seed) for seed in results.seeds)
    return [
        f"method {scenario.method.name}",
        f"data {scenario.data.set}",
        f"{count_of(classes, 'class', 'classes')} in {count_of(results.stages, 'stage')}",
        count_of(len(first.devices), "device"),
        f"partition {scenario.devices.partition.rule}",
        f"backbone {scenario.backbone.name or scenario.backbone.network}",
        f"engine {scenario.engine.kind}",
        f"{'seed' if len(results.seeds) == 1 else 'seeds'} {seeds}",
    ]


def notes_of(results: RunResults) -> list[str]:
    """Return what stages noted, each with the seeds and stages that did."""
    where: dict[str, list[str]] = {}
    for seed, found in results.seeds.items():
        for stage in found.stages:
            for note in stage.notes:
                where.setdefault(note, []).append(f"seed {seed}, stage {stage.stage}")
    return [f"{note} ({_first_few(places)})" for note, places in where.items()]


def _first_few(places: list[str]) -> str:
    shown = "; ".join(places[:3])
    return shown if len(places) <= 3 else f"{shown}; and {len(places) - 3} more"


def _card(results: RunResults, name: str) -> PageCard:
    metric, value = metric_of(name), results.summary[name]
    beside = []
    if value.deviation is not None:
        scale, unit = scale_of(metric.unit, value.mean)
        beside.append(
            f"± {value.deviation / scale:.2f}\u00a0{unit} over {count_of(value.count, 'seed')}"
        )
    beside += _printed(results, name)
    return PageCard(
        metric.said_title(results.score), show(value.mean, metric.unit), " · ".join(beside)
    )


def _printed(results: RunResults, name: str) -> list[str]:
    """Return what the first published curve prints for a number, if it does."""
    place = {"average_incremental_accuracy": 0, "final_accuracy": 1}.get(name)
    if place is None or not results.scenario.published:
        return []
    curve = results.scenario.published[0]
    value = learning.printed_numbers(curve)[place]
    return [] if value is None else [f"{curve.label}: {show(value, 'share')}"]


def _machine_table(results: RunResults) -> Table:
    rows = tuple((name, str(value)) for name, value in results.machine.items())
    return Table("Machine and versions", ("", ""), rows)
