"""The results as Markdown: the table in groups, costs, and how each rate was chosen."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from benchmarks.papers.footing.markdown import Runs, markdown_table, over_seeds, ranked, spread
from benchmarks.papers.one_table.cases import (
    BATCH,
    BUDGET,
    EPOCHS,
    MEMORY,
    METHODS,
    ROUNDS,
    SEEDS,
    STAGES,
    TUNING_STAGES,
)
from benchmarks.papers.one_table.steps import unfinished
from fleetledger.simulator.metrics.over_seeds import PairedDifference, paired_difference

_MEBI = 2**20
_HEAD = (
    "group",
    "method",
    "seeds",
    "average, %",
    "to the group's first, points",
    "last, %",
    "forgetting, points",
    "MiB up",
    "rate",
)
_COSTS = (
    "method",
    "MiB up",
    "MiB down",
    "device seconds in all",
    "rounds of a stage",
    "device seconds of a round",
    "printed: s of a task",
    "printed: MiB of a task",
)
_COSTS_TOLD = """\
Bytes in one stage. Seconds of one core, over all ten stages and divided by all rounds: runs on a busy and on an idle
machine, so orders of magnitude. Printed: by FedHAF, seconds of a task on one RTX 3090 with ResNet-152 features; by STSA,
a tenth of its Table 5 with ResNet-18. Both on CIFAR-100 in ten tasks, each on its paper's own protocol. Memory was measured
of two real agents with MobileNetV2 at 112 pixels and 100 images, resident: [95 MB](agent_memory.json) after a contribution by
STSA's compact form, M = 1,250, and [335 MiB](fedhaf_agent_memory.json) with FedHAF; no paper prints any.
"""  # noqa: E501 - lines of the page


def tables(results: Mapping[str, Any]) -> str:
    """Return all tables, of what has been measured so far."""
    told = ", ".join(f"{name} {value}" for name, value in results["machine"].items())
    grouped = groups(ranked(results["runs"]))
    parts = [
        "# All methods on one footing\n",
        "Written by `python -m benchmarks.papers.one_table.run`; [benchmarks/papers/one_table]"
        "(../papers/one_table/README.md) says what is the same for all.\nMean over the seeds "
        f"{', '.join(map(str, SEEDS))} ± half of the 95 % interval (Student's t); a row with "
        "fewer seeds says so. **A group**\nbegins with the first row whose average differs "
        "clearly from that of the row which begins the group above: the 95 %\ninterval of the "
        "difference, seed by seed, leaves out zero. Order within a group says nothing. A device "
        f"may send\n{BUDGET / _MEBI:.2f} MiB in a stage; what sends more is marked *, whatever it "
        f"is. Methods of rounds: {ROUNDS} rounds of {EPOCHS} epochs\nin batches of {BATCH} unless "
        f"the row says otherwise, {MEMORY} exemplars on a device where there are any.\n",
        f"Machine of the newest run: {told}.\n",
        *markdown_table(_HEAD, [_row(*item) for item in grouped]),
        "## What it costs a device\n",
        _COSTS_TOLD,
        *markdown_table(_COSTS, [_costs(name, runs) for _, name, runs, _ in grouped]),
        "## How rates were chosen\n",
        f"Average over the first {TUNING_STAGES} stages of a seed of its own, in percent of 50 "
        "training images of each class that were held out.\n",
        *markdown_table(("method", "rates and averages"), list(_rates(results["rates"]))),
        *_left(unfinished(results)),
    ]
    return "\n".join(parts)


def _left(names: Sequence[str]) -> Iterator[str]:
    """Yield what is not measured to the end: rates that are missing, or seeds at the best one."""
    if names:
        yield "## Not measured to the end\n"
        yield "A seed or a rate is missing, or another rate is best than the seeds were run at.\n"
        yield from (f"- {METHODS[name].title}" for name in names)
        yield ""


def groups(
    found: Sequence[tuple[str, Runs]],
) -> list[tuple[str, str, Runs, PairedDifference | None]]:
    """Return letter of the group, name, runs, and the difference to the first row of the group.

    The difference is None for the first row, and where no seed is shared.
    """
    grouped: list[tuple[str, str, Runs, PairedDifference | None]] = []
    first: Runs = {}
    letter = ""
    for name, runs in found:
        difference = paired_difference(_averages(first), _averages(runs)) if first else None
        if difference is None or difference.is_clear:
            letter, first, difference = _next(letter), runs, None
        grouped.append((letter, name, runs, difference))
    return grouped


def _next(letter: str) -> str:
    """Return the letter after another: A, B, ... Z, ZA, ZB, ..."""
    if letter.endswith("Z") or not letter:
        return f"{letter}A"
    return letter[:-1] + chr(ord(letter[-1]) + 1)


def _averages(runs: Runs) -> dict[int, float]:
    return {int(key.removeprefix("seed ")): float(run["average"]) for key, run in runs.items()}


def _row(letter: str, name: str, runs: Runs, to_first: PairedDifference | None) -> tuple[str, ...]:
    rates = {run["rate"] for run in runs.values() if "rate" in run}
    return (
        letter,
        METHODS[name].title,
        str(len(runs)),
        spread(runs, "average"),
        "" if to_first is None else _difference(to_first),
        spread(runs, "last"),
        spread(runs, "forgetting"),
        _sent(runs),
        ", ".join(f"{rate:g}" for rate in sorted(rates)),
    )


def _difference(found: PairedDifference) -> str:
    if found.low is None or found.high is None:
        return f"{found.mean:+.2f}"
    return f"{found.mean:+.2f} ({found.low:+.2f}, {found.high:+.2f})"


def _sent(runs: Runs) -> str:
    sent = over_seeds(runs, "mib_up").mean
    return f"{sent:.2f}" + (" *" if sent * _MEBI > BUDGET else "")


def _costs(name: str, runs: Runs) -> tuple[str, ...]:
    method, seconds = METHODS[name], over_seeds(runs, "device_seconds").mean
    rounds = method.rounds
    return (
        method.title,
        _sent(runs),
        f"{over_seeds(runs, 'mib_down').mean:.2f}",
        f"{seconds:.1f}" if seconds else "",
        "" if rounds is None else str(rounds),
        "" if rounds is None else f"{seconds / (STAGES * rounds):.2f}",
        "" if method.printed_seconds is None else f"{method.printed_seconds:g}",
        "" if method.printed_mib is None else f"{method.printed_mib:g}",
    )


def _rates(rates: Mapping[str, Runs]) -> Iterator[tuple[str, str]]:
    for name, tried in rates.items():
        best = max(sorted(tried, key=float), key=lambda rate: float(tried[rate]["average"]))
        told = [
            f"**{rate}: {run['average']:.1f}**" if rate == best else f"{rate}: {run['average']:.1f}"
            for rate, run in sorted(tried.items(), key=lambda item: float(item[0]))
        ]
        yield METHODS[name].title, ", ".join(told)
