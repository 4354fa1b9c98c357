"""The results as tables: what each claim says, and what was measured."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from benchmarks.papers.footing.markdown import markdown_table
from benchmarks.papers.simulated_cifar.claims import PUBLISHED_BYTES, Run, claims

MIB = 2**20


def tables(result: Mapping[str, Any]) -> str:
    """Return the results as Markdown."""
    runs: Mapping[str, Run] = result["runs"]
    whole = {name: run for name, run in runs.items() if name.startswith("wire")}
    ten = {name: run for name, run in runs.items() if name not in whole}
    told = _told(result["machine"])
    elsewhere: dict[str, list[str]] = {}
    for name, run in runs.items():
        if "machine" in run:
            elsewhere.setdefault(_told(run["machine"]), []).append(name)
    parts = [
        "# The simulator on CIFAR-100\n",
        "Written by `python -m benchmarks.papers.simulated_cifar.run`, whose docstring has the "
        "claims and "
        "the commands. Core\nof CIFAR-100 (200 training and 50 test images per class), ImageNet "
        "MobileNetV2 at 112 pixels, frozen.\nM = 5000 and ten stages, unless a run's name says "
        "otherwise; five devices; engine `inprocess`;\nridge 161290 = 10 * 127^2, the default. "
        "Runs called `best` are of the scenario `cifar100-best`: M = 1920, exact sums.\n",
        f"Machine: {told}.\n",
        *(f"{'; '.join(names)}: {where}.\n" for where, names in elsewhere.items()),
        "## Claims\n",
        *markdown_table(("claim", "measured, seed 1", "holds"), list(claims(runs))),
        "## Accuracy\n",
        *markdown_table(
            ("run", "after the last stage, %", "pooled ridge, %", "mean of the stages, %"),
            [_accuracy(name, run) for name, run in ten.items()],
        ),
        "## Digests after the last stage\n",
        "The digest of the aggregate is that of integers: in the exact form it depends on the "
        "images alone, so partitions,\nstages and parts cannot be told from it. A head's rows are "
        "in the order in which classes came.\n",
        *markdown_table(
            ("run", "aggregate", "head"),
            [(name, run["aggregate"][:16], run["head"][:16]) for name, run in ten.items()],
        ),
        "## Seconds of the ten stages, features in the cache\n",
        "Process seconds are those of all threads, user and system. The whole run is with loading, "
        "planning, answers and\nthe report. Load is that of the machine's two cores when the run "
        "began: other programs ran beside it, and\nsome runs were halted for minutes. Wall seconds "
        "count all that, so only process seconds tell what a run costs.\n",
        *markdown_table(
            (
                "run",
                "stages, process",
                "stages, wall",
                "whole run, process",
                "whole run, wall",
                "load",
                "phases, wall",
                "an image, one thread, ms",
                "peak memory, MiB",
            ),
            [_seconds(name, run) for name, run in ten.items()],
        ),
        "## Bytes\n",
        "What one device sends in one stage, everything that its transport counts, against "
        f"{PUBLISHED_BYTES:,} bytes ({PUBLISHED_BYTES / MIB:.1f} MiB)\nof Table 5. `wire` runs are "
        "one stage of ten classes of the whole data set, 1,000 images on each device.\n",
        *markdown_table(
            ("run", "images per device and stage", "bytes up, mean", "most", "share of Table 5"),
            [
                _bytes(name, run)
                for name, run in (*whole.items(), *ten.items())
                if not {"map_width", "max_samples_per_part"} & set(run["settings"])
            ],
        ),
    ]
    return "\n".join(parts)


def _told(machine: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in machine.items())


def _accuracy(name: str, run: Run) -> tuple[str, ...]:
    pooled = f"{run['pooled'][-1]:.2f}" if "pooled" in run else ""
    accuracy = run["accuracy"]
    return name, f"{accuracy[-1]:.2f}", pooled, f"{sum(accuracy) / len(accuracy):.2f}"


def _seconds(name: str, run: Run) -> tuple[str, ...]:
    seconds = run["seconds"]
    phases = dict(seconds["phases"])
    total = phases.pop("total")
    told = ", ".join(f"{phase} {value:.1f}" for phase, value in phases.items())
    return (
        name,
        _number(seconds, "process_of_stages"),
        f"{total:.1f}",
        _number(seconds, "process"),
        _number(seconds, "wall"),
        _number(seconds, "load_before"),
        told,
        f"{1e3 * seconds['per_image']:.1f}" if "per_image" in seconds else "",
        f"{run['peak_memory_mib']:,}",
    )


def _number(seconds: Mapping[str, Any], name: str) -> str:
    return f"{seconds[name]:.1f}" if name in seconds else ""


def _bytes(name: str, run: Run) -> tuple[str, ...]:
    sent = [value for stage in run["bytes"]["up"] for value in stage]
    counted = [value for stage in run["bytes"]["samples_counted"] for value in stage]
    mean = sum(sent) / len(sent)
    images = sum(counted) / len(counted)
    return (
        name,
        f"{images:,.0f} ({min(counted):,} to {max(counted):,})",
        f"{mean:,.0f}",
        f"{max(sent):,}",
        f"{mean / PUBLISHED_BYTES:.4f}",
    )
