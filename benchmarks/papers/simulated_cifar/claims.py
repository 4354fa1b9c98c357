"""What the runs say to each claim; a claim whose runs are missing says nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

Run = Mapping[str, Any]
Row = tuple[str, str, str]

COLUMNS, CLASSES_PER_STAGE, FLOAT32 = 5000, 10, 4
PUBLISHED_BYTES = (COLUMNS**2 + COLUMNS * CLASSES_PER_STAGE) * FLOAT32
"""Of one device and stage in Table 5 of arXiv 2506.01327: G as a square, P, float32; 95.6 MiB."""
PARTITIONS = ("Dirichlet 0.1", "Dirichlet 0.5", "IID")
SKEWED = PARTITIONS[0]


def claims(runs: Mapping[str, Run], seed: int = 1) -> Iterator[Row]:
    """Yield each claim, what was measured, and whether it holds."""

    def named(names: Sequence[str]) -> list[Run]:
        return [runs[f"{name}, seed {seed}"] for name in names if f"{name}, seed {seed}" in runs]

    told: list[tuple[Sequence[str], Callable[[list[Run]], Row]]] = [
        (["compact"], _accuracy),
        (["compact", "estimated"], _estimated),
        (["time"], _seconds),
        *(
            ([f"exact, {kind}{partition}" for partition in PARTITIONS], _one_digest(kind))
            for kind in ("", "one stage, ", "M = 1250, ")
        ),
        ([f"exact, one stage, {SKEWED}", f"exact, {SKEWED}"], _stages_do_not_matter),
        (["compact", *(f"compact, {partition}" for partition in PARTITIONS[1:])], _compact),
        (["wire, compact"], _bytes),
        (["compact", f"exact, one stage, {SKEWED}"], _forms),
        (["best"], _best),
        (["best", "best, Dirichlet 0.5", "best, IID"], _one_digest_of_best),
        (["best, whole"], _whole_at(112, 64.0)),
        (["best, whole, 160 px"], _whole_at(160, 67.0)),
    ]
    for names, row in told:
        found = named(names)
        if len(found) == len(names):
            yield row(found)


def final(run: Run) -> float:
    """Return the accuracy after the last stage in %."""
    return float(run["accuracy"][-1])


def _accuracy(found: list[Run]) -> Row:
    accuracy, pooled = final(found[0]), float(found[0]["pooled"][-1])
    return (
        "compact form, Dirichlet 0.1: at least 58.5 %, within 0.2 points of pooled ridge",
        f"{accuracy:.2f} %, pooled {pooled:.2f} %",
        _verdict(accuracy >= 58.5 and abs(accuracy - pooled) <= 0.2),
    )


def _estimated(found: list[Run]) -> Row:
    compact, estimated = map(final, found)
    return (
        "STSA-E, 50 dummies: within 2 points of the compact form",
        f"{estimated:.2f} %, {compact - estimated:.2f} points less",
        _verdict(compact - estimated <= 2),
    )


def _seconds(found: list[Run]) -> Row:
    seconds = found[0]["seconds"]
    process, wall = float(seconds["process_of_stages"]), float(seconds["phases"]["total"])
    return (
        "ten stages in less than 60 s on two cores, features in the cache",
        f"{process:.1f} s of process time; {wall:.1f} s by the clock on the wall, at a load of "
        f"{seconds['load_before']:.1f}",
        _verdict(wall < 60) if wall < 60 or process >= 60 else "in process time",
    )


def _one_digest(kind: str) -> Callable[[list[Run]], Row]:
    def row(found: list[Run]) -> Row:
        digests = {run["aggregate"] for run in found}
        accuracies = {final(run) for run in found}
        return (
            f"exact form, {kind}three partitions: one digest, one accuracy",
            f"{_short(digests)}; {_percent(accuracies)}",
            _verdict(len(digests) == len(accuracies) == 1),
        )

    return row


def _stages_do_not_matter(found: list[Run]) -> Row:
    digests = {run["aggregate"] for run in found}
    accuracies = {final(run) for run in found}
    return (
        "exact form, one stage or ten: one digest, one accuracy",
        f"{_short(digests)}; {_percent(accuracies)}",
        _verdict(len(digests) == len(accuracies) == 1),
    )


def _compact(found: list[Run]) -> Row:
    accuracies = [final(run) for run in found]
    return (
        "compact form, three partitions: within 0.1 points of each other",
        " / ".join(f"{value:.2f}" for value in accuracies) + " %",
        _verdict(round(max(accuracies) - min(accuracies), 2) <= 0.1),
    )


def _bytes(found: list[Run]) -> Row:
    sent = [value for stage in found[0]["bytes"]["up"] for value in stage]
    share = sum(sent) / len(sent) / PUBLISHED_BYTES
    return (
        "compact form, 1,000 images per device and stage: at most 0.06 of Table 5's bytes",
        f"{sum(sent) / len(sent):,.0f} bytes, {share:.4f}",
        _verdict(share <= 0.06),
    )


def _forms(found: list[Run]) -> Row:
    compact, exact = map(final, found)
    return (
        "compact form within 0.2 points of the exact form",
        f"{compact:.2f} and {exact:.2f} %",
        _verdict(round(abs(compact - exact), 2) <= 0.2),
    )


def _best(found: list[Run]) -> Row:
    sent = [value for stage in found[0]["bytes"]["up"] for value in stage]
    share = sum(sent) / len(sent) / PUBLISHED_BYTES
    accuracy = final(found[0])
    return (
        "cifar100-best: at least 62.0 %, with at most 0.06 of Table 5's bytes",
        f"{accuracy:.2f} %, {sum(sent) / len(sent):,.0f} bytes, {share:.4f}",
        _verdict(accuracy >= 62 and share <= 0.06),
    )


def _one_digest_of_best(found: list[Run]) -> Row:
    _, measured, holds = _one_digest("")(found)
    return "cifar100-best, three partitions: one digest, one accuracy", measured, holds


def _whole_at(side: int, least: float) -> Callable[[list[Run]], Row]:
    def row(found: list[Run]) -> Row:
        sent = [value for stage in found[0]["bytes"]["up"] for value in stage]
        share = sum(sent) / len(sent) / PUBLISHED_BYTES
        return (
            f"cifar100-best on all of CIFAR-100 at {side} px: at least {least:.1f} %",
            f"{final(found[0]):.2f} %, {share:.4f} of Table 5's bytes",
            _verdict(final(found[0]) >= least),
        )

    return row


def _verdict(holds: bool) -> str:
    return "yes" if holds else "**no**"


def _short(digests: set[str]) -> str:
    return ", ".join(sorted(digest[:12] for digest in digests))


def _percent(accuracies: set[float]) -> str:
    return ", ".join(f"{value:.2f} %" for value in sorted(accuracies))
