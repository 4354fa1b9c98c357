"""The results about batch normalisation as Markdown: cases, differences, and rounds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from benchmarks.papers.dcid_tables.norm_cases import BESIDE, CASES, ICARL, SEEDS, TUNED_ON, key_of
from benchmarks.papers.footing.markdown import markdown_table, mean
from fleetledger.simulator.metrics.over_seeds import paired_difference

Run = Mapping[str, Any]
BySeed = Mapping[int, Run]
_BESIDE = {
    "mean-averaged": "over the averaged mean",
    "mean-estimated": "over the mean measured on S",
    "dcid-train-still": "over statistics alone",
    "mean-sent": "over the mean as sent",
}
"""What other cases are compared with."""
_PAIRS = (
    ("mean-falling", "mean-averaged"),
    ("lucir-fleet", "lucir-sites"),
    ("lucir-kept", "lucir-fleet"),
    ("lucir-dcid", "lucir-fleet"),
    ("lucir-dcid-kept", "lucir-kept"),
    ("lucir-dcid-kept", "lucir-fleet"),
)
"""What stands beside them, and what each is compared with."""


def tables(result: Mapping[str, Any]) -> str:
    """Return all tables, of what has been measured so far."""
    told = ", ".join(f"{name} {value}" for name, value in result["machine"].items())
    cases = {name: found for name in CASES if (found := _by_seed(result, name))}
    parts = [
        "# Batch normalisation in DCID and in its baseline\n",
        "Written by `python -m benchmarks.papers.dcid_tables.norms`;"
        " [benchmarks/papers/dcid_tables](../papers/dcid_tables/README.md#batch-normalisation) "
        "says "
        "what was\n"
        "asked and what the figures say. Accuracies are in percent, averages over the sessions "
        "after the first; means\nover seeds with the 95 % interval of Student's t, differences "
        "seed by seed.\n",
        f"Machine: {told}.\n",
        *_cases(result, {name: cases[name] for name in ICARL if name in cases}),
        "## Differences\n",
        "By the head:\n",
        *_differences(cases, "head"),
        "By the nearest mean of exemplars:\n",
        *_differences(cases, "model"),
        "## Round by round\n",
        "What a round's answers hold: the sites' models together (ensemble), their mean before the "
        "coordinator trains\non, and the general model that comes of it, by the head, on all "
        "classes seen.\n",
        *_rounds(cases),
        "Beside the mean, averaged over the four rounds of a seed:\n",
        *_beside_the_mean(cases),
    ]
    beside = {name: cases[name] for name in BESIDE if name in cases}
    if beside:
        parts += ["## Beside them\n", *_cases(result, beside), *_pairs(cases)]
    missing = [name for name in CASES if len(cases.get(name, {})) < len(SEEDS)]
    if missing:
        parts.append(f"Not all seeds were run of {', '.join(missing)}.\n")
    parts += ["## The rates that were tried\n", *_tried(result)]
    return "\n".join(parts)


def _by_seed(result: Mapping[str, Any], name: str) -> dict[int, Run]:
    """Return a case's runs with its best rate, by seed; none of the seed of choosing."""
    best = result["chosen"].get(name)
    if best is None:
        return {}
    keys = {seed: key_of(name, best, seed) for seed in SEEDS}
    return {seed: result["runs"][key] for seed, key in keys.items() if key in result["runs"]}


def _cases(result: Mapping[str, Any], cases: Mapping[str, BySeed]) -> Iterator[str]:
    head = (
        "case",
        "rate chosen",
        "n",
        "head, average",
        "head, final",
        "model, average",
        "processor, s per seed",
    )
    rows = [
        (
            CASES[name].title,
            f"{CASES[name].tuned} {result['chosen'][name]:g}",
            str(len(runs)),
            _over([run["head"] for run in runs.values()]),
            _over([run["head_final"] for run in runs.values()]),
            _over([run["model"] for run in runs.values()]),
            _seconds(runs),
        )
        for name, runs in cases.items()
    ]
    return markdown_table(head, rows)


def _differences(cases: Mapping[str, BySeed], field: str) -> Iterator[str]:
    beside = {name: cases[name] for name in _BESIDE if name in cases}
    rows = [
        (
            CASES[name].title,
            str(len(runs)),
            *(
                "" if name == other else _difference(theirs, runs, field)
                for other, theirs in beside.items()
            ),
        )
        for name, runs in cases.items()
        if name in ICARL
    ]
    return markdown_table(("case", "n", *(_BESIDE[name] for name in beside)), rows)


def _pairs(cases: Mapping[str, BySeed]) -> Iterator[str]:
    """Yield what a case is above the one beside it; LUCIR answers by its head alone."""
    rows = [
        (
            f"{CASES[name].title}, over {CASES[other].title}",
            str(len(cases[name])),
            _difference(cases[other], cases[name], "head"),
            _difference(cases[other], cases[name], "model"),
        )
        for name, other in _PAIRS
        if name in cases and other in cases
    ]
    return markdown_table(("case", "n", "head", "model"), rows)


def _rounds(cases: Mapping[str, BySeed]) -> Iterator[str]:
    places = [(session, number) for session in (2, 3) for number in (1, 2)]
    head = ("case", "of", *(f"session {session}, round {number}" for session, number in places))
    rows = []
    for name, runs in cases.items():
        for field in ("ensemble", "mean", "general"):
            cells = [_over(_at(runs, place, field)) for place in places]
            rows.append((CASES[name].title if field == "ensemble" else "", field, *cells))
    return markdown_table(head, rows)


def _beside_the_mean(cases: Mapping[str, BySeed]) -> Iterator[str]:
    rows = []
    for name, runs in cases.items():
        cells = []
        for field in ("ensemble", "general"):
            gains = [[one[field] - one["mean"] for one in run["rounds"]] for run in runs.values()]
            cells.append(_over([sum(of_seed) / len(of_seed) for of_seed in gains]))
        rows.append((CASES[name].title, str(len(runs)), *cells))
    return markdown_table(("case", "n", "ensemble", "general model"), rows)


def _at(runs: BySeed, place: tuple[int, int], field: str) -> list[float]:
    return [
        one[field]
        for run in runs.values()
        for one in run["rounds"]
        if (one["session"], one["round"]) == place and one[field] is not None
    ]


def _tried(result: Mapping[str, Any]) -> Iterator[str]:
    rows = [
        (key, f"{run['head']:.2f}", f"{run['model']:.2f}")
        for key, run in result["runs"].items()
        if key.endswith(f"/seed-{TUNED_ON}")
    ]
    return markdown_table(("run", "head, average", "model, average"), rows)


def _over(values: Sequence[float]) -> str:
    if not values:
        return ""
    return mean(values)


def _difference(first: BySeed, second: BySeed, field: str) -> str:
    found = paired_difference(
        {seed: run[field] for seed, run in first.items()},
        {seed: run[field] for seed, run in second.items()},
    )
    if found is None:
        return ""
    if found.low is None or found.high is None:
        return f"{found.mean:+.2f} (n = 1)"
    return f"{found.mean:+.2f} ({found.low:+.2f} to {found.high:+.2f})"


def _seconds(runs: BySeed) -> str:
    spent = [run["processor_seconds"] for run in runs.values()]
    known = [one for one in spent if one is not None]
    return f"{sum(known) / len(known):.0f}" if known else ""
