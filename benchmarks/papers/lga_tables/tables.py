"""From the metrics of a run to the numbers of a case, and from cases to a table; pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from benchmarks.papers.footing.markdown import mean
from fleetledger.methods.lga.settings import MODES, PRESETS
from fleetledger.simulator.metrics.over_seeds import paired_difference
from fleetledger.simulator.metrics.seed_metrics import SeedMetrics

_HEAD = (
    "case",
    "final, %",
    "average, %",
    "forgetting, points",
    "old classes, %",
    "tasks noticed at once",
    "late",
    "missed",
    "false alarms",
    "gradients beside models, %",
    "seconds",
)
Case = dict[str, Any]


def case_of(metrics: SeedMetrics) -> Case:
    """Return a run's accuracies in percent, what its devices noticed, and bytes of its proxy."""
    accuracy = [round(100 * stage.accuracy, 2) for stage in metrics.stages]
    old = metrics.stages[-1].old_accuracy
    return {
        "accuracy": accuracy,
        "average": round(sum(accuracy) / len(accuracy), 2),
        "final": accuracy[-1],
        "old_classes": None if old is None else round(100 * old, 2),
        "forgetting": round(100 * metrics.stages[-1].forgetting, 2),
        "noticed": noticed(metrics),
        **proxy_bytes(metrics),
    }


def noticed(metrics: SeedMetrics) -> dict[str, int]:
    """Count the tasks that began on devices, how they were noticed, and false alarms."""
    names = ("began", "at_once", "late", "missed", "false_alarms")
    return {name: sum(getattr(item, name) for item in metrics.noticing) for name in names}


def proxy_bytes(metrics: SeedMetrics) -> dict[str, Any]:
    """Return bytes of gradients and of weights, and their ratio; empty without a proxy.

    The paper compares these: 4,537 MB a task is ten rounds of ten answers of ResNet-18.
    """
    found = [stage.proxy for stage in metrics.stages if stage.proxy is not None]
    if not found:
        return {}
    gradients, weights = (
        sum(getattr(item, name) for item in found) for name in ("gradient_bytes", "weight_bytes")
    )
    return {
        "model_bytes": weights,
        "gradient_bytes": gradients,
        "gradient_percent": round(100 * gradients / weights, 3),
    }


def table(cases: Mapping[str, Case]) -> str:
    """Return the cases as Markdown, modes and presets in the order of the settings."""
    lines = [_row(*_HEAD), _row(*["---"] * len(_HEAD))]
    for name in sorted(cases, key=_place):
        case, seen = cases[name], cases[name]["noticed"]
        accuracies = ("final", "average", "forgetting", "old_classes")
        lines.append(
            _row(
                name,
                *(case.get(field, "-") for field in accuracies),
                f"{seen['at_once']} of {seen['began']}",
                *(seen[field] for field in ("late", "missed", "false_alarms")),
                case.get("gradient_percent", "-"),
                case["seconds"],
            )
        )
    return "\n".join(lines)


def choice_table(cases: Mapping[str, Case]) -> str:
    """Return which models the proxy chose in each stage; of cases that have any."""
    held = {name: cases[name]["choices"] for name in cases if cases[name].get("choices")}
    stages = max(map(len, held.values()), default=0)
    head = ("case", *(f"stage {number}" for number in range(1, stages + 1)))
    lines = [_row(*head), _row(*["---"] * len(head))]
    for name in sorted(held, key=_place):
        lines.append(_row(name, *held[name], *[""] * (stages - len(held[name]))))
    return "\n".join(lines)


def seeds_table(cases: Mapping[str, Case], further: Mapping[str, Mapping[str, Case]]) -> str:
    """Return the cases that were run on further seeds; empty where none was.

    Mean and half of the 95 % interval, and what LGA of the same mode is above the case, by seed.
    """
    runs = {
        name: {1: cases[name], **{int(seed): case for seed, case in of_seed.items()}}
        for name, of_seed in further.items()
        if name in cases
    }
    if not runs:
        return ""
    fields = ("final", "average", "forgetting")
    head = ("case", "seeds", *_HEAD[1:4], "LGA above it, final", "average")
    lines = [_row(*head), _row(*["---"] * len(head))]
    for name in sorted(runs, key=_place):
        lga = runs.get(f"{name.partition(',')[0]}, lga", {})
        lines.append(
            _row(
                name,
                ", ".join(map(str, sorted(runs[name]))),
                *(mean([run[field] for run in runs[name].values()], 1) for field in fields),
                *("" if runs[name] is lga else _above(lga, runs[name], of) for of in fields[:2]),
            )
        )
    told = "Mean ± half of the 95 % interval (Student's t), and paired differences with theirs."
    return "\n".join(["", "## On more seeds", "", told, "", *lines, ""])


def _above(lga: Mapping[int, Case], runs: Mapping[int, Case], field: str) -> str:
    first, second = ({seed: run[field] for seed, run in of.items()} for of in (runs, lga))
    found = paired_difference(first, second)
    if found is None:
        return ""
    if found.low is None or found.high is None:
        return f"{found.mean:+.1f} (n = 1)"
    return f"{found.mean:+.1f} ({found.low:+.1f} to {found.high:+.1f})"


def _place(name: str) -> tuple[int, int]:
    mode, _, preset = name.partition(", ")
    return list(MODES).index(mode), list(PRESETS).index(preset)


def _row(*cells: object) -> str:
    return f"| {' | '.join(map(str, cells))} |"
