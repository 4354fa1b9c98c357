"""The tables of `fbl_tables.forms_run` as Markdown: means over seeds, with intervals."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from benchmarks.papers.fbl_tables.forms import FOOTINGS, FORMS, Footing
from benchmarks.papers.footing.markdown import line, mean
from fleetledger.simulator.metrics.over_seeds import paired_difference, summary

Run = Mapping[str, Any]
_BESIDE = "every-guess"
"""The form with which others are compared seed by seed."""
_RIVALS = ("mib", "rcil")


def forms_table(result: Mapping[str, Any]) -> str:
    """Return the whole file: a table for each footing that was measured."""
    told = ", ".join(f"{name} {value}" for name, value in result["machine"].items())
    parts = [
        "# Forms of FBL\n",
        "Written by `python -m benchmarks.papers.fbl_tables.forms_run`; "
        "[benchmarks/papers/fbl_tables](../papers/fbl_tables/README.md) says\nwhat was asked, "
        "under which "
        "settings, and what the figures say. mIoU in percent over background and all classes "
        "seen:\nthe mean over seeds and, after ±, half of the 95 % interval of Student's t. "
        "Average is over the tasks; old and new are the\nclasses of earlier tasks and of the last "
        "one, after the last. Beside: the average minus that of "
        f'"{FORMS[_BESIDE].title}",\nseed by seed, with its interval. Rate is the multiple of the '
        "footing's rate in later tasks that a search found best, on a\nseed that is not among "
        "those of the table.\n",
        f"Machine: {told}.\n",
    ]
    for name, footing in FOOTINGS.items():
        if name in result["runs"]:
            parts += [
                f"## {footing.title[0].upper()}{footing.title[1:]}\n",
                f"`{name}`: `{footing.scenario}` with {_fields(footing.fields)}."
                f"{_first(footing, result['runs'][name])}\n",
            ]
            forms = _at_best_rates(result, name)
            parts += _rows(forms)
            parts += _beside_rivals(forms)
            parts += _search(result.get("search", {}).get(name, {}))
    return "\n".join(parts)


def best_rate(result: Mapping[str, Any], footing: str, form: str) -> float:
    """Return the multiple of the footing's rate that the search found best; 1 without a search."""
    found = result.get("search", {})
    own, borrowed = (
        found.get(name, {}).get(form, {}) for name in (footing, FOOTINGS[footing].rates_of)
    )
    tried = own or borrowed
    best = max(tried.values(), key=average, default=None)
    return 1.0 if best is None else float(best["rate"])


def _at_best_rates(result: Mapping[str, Any], footing: str) -> dict[str, dict[str, Run]]:
    """Return the runs of each form that have its rate; others are of before the search."""
    rates = {form: best_rate(result, footing, form) for form in FORMS}
    return {
        form: {seed: run for seed, run in runs.items() if run["rate"] == rates[form]}
        for form, runs in result["runs"][footing].items()
    }


def _rows(forms: Mapping[str, Mapping[str, Run]]) -> Iterator[str]:
    lengths = [len(run["miou"]) for runs in forms.values() for run in runs.values()]
    if not lengths:
        return
    tasks = max(lengths)
    numbered = [f"task {number}" for number in range(1, tasks + 1)]
    titles = ["form", "rate", "seeds", *numbered, "average", "beside", "old", "new", "processor, s"]
    yield line(titles)
    yield line(["---"] * len(titles))
    beside = forms.get(_BESIDE, {})
    for name, form in FORMS.items():
        runs = forms.get(name)
        if not runs:
            continue
        every = list(runs.values())
        yield line(
            [
                form.title,
                f"{every[0]['rate']:g}",
                ", ".join(sorted(runs)),
                *(mean([run["miou"][task] for run in every], 1) for task in range(tasks)),
                mean([average(run) for run in every], 1),
                _difference(beside, runs) if name != _BESIDE else "",
                mean([run["old"] for run in every], 1),
                mean([run["new"] for run in every], 1),
                f"{summary([run['processor_seconds'] for run in every]).mean:.0f}",
            ]
        )
    yield ""


def _beside_rivals(forms: Mapping[str, Mapping[str, Run]]) -> Iterator[str]:
    """Yield how far FBL's forms are above rivals, seed by seed, where there is more than MiB."""
    rivals = [name for name in _RIVALS if name in forms]
    if len(rivals) < len(_RIVALS):
        return
    yield "Above rivals, seed by seed:\n"
    titles = [f"{what}, {FORMS[name].title}" for name in rivals for what in _MEASURES]
    yield line(["form", "seeds", *titles])
    yield line(["---"] * (len(titles) + 2))
    for name, form in FORMS.items():
        runs = forms.get(name)
        if not runs or name in rivals:
            continue
        told = [
            _difference(forms[rival], runs, measure)
            for rival in rivals
            for measure in _MEASURES.values()
        ]
        yield line([form.title, ", ".join(sorted(runs)), *told])
    yield ""


def _search(forms: Mapping[str, Mapping[str, Run]]) -> Iterator[str]:
    """Yield the averages that chose the rates."""
    rates = sorted({run["rate"] for tried in forms.values() for run in tried.values()})
    if not rates:
        return
    seeds = sorted({run["seed"] for tried in forms.values() for run in tried.values()})
    told = ", ".join(map(str, seeds))
    yield f"The search, averages on seed {told} by the multiple of the rate:\n"
    yield line(["form", *(f"{rate:g}" for rate in rates)])
    yield line(["---"] * (len(rates) + 1))
    for name, form in FORMS.items():
        tried = {run["rate"]: f"{average(run):.1f}" for run in forms.get(name, {}).values()}
        if tried:
            yield line([form.title, *(tried.get(rate, "") for rate in rates)])
    yield ""


def _last(run: Run) -> float:
    return float(run["miou"][-1])


def average(run: Run) -> float:
    """Return the mean of the mIoU over the tasks."""
    return float(sum(run["miou"]) / len(run["miou"]))


_MEASURES: Mapping[str, Callable[[Run], float]] = {"after the last task": _last, "average": average}


def _difference(
    beside: Mapping[str, Run],
    runs: Mapping[str, Run],
    measure: Callable[[Run], float] = average,
) -> str:
    found = paired_difference(
        {int(seed): measure(run) for seed, run in beside.items()},
        {int(seed): measure(run) for seed, run in runs.items()},
    )
    if found is None:
        return ""
    return f"{found.mean:+.1f}" + (
        "" if found.low is None else f" ({found.low:+.1f}, {found.high:+.1f})"
    )


def _first(footing: Footing, forms: Mapping[str, Mapping[str, Run]]) -> str:
    """Return what is told of a first task that all forms go on from."""
    if footing.first_epochs is None:
        return ""
    seconds = {seed: run["first_seconds"] for runs in forms.values() for seed, run in runs.items()}
    return (
        f" Task 1 was learned once a seed in one place, in {footing.first_epochs} passes over all "
        f"of its pictures ({summary(list(seconds.values())).mean:.0f} s of a processor, which no "
        "row has in its own)."
    )


def _fields(fields: Mapping[str, Any]) -> str:
    return ", ".join(f"`{name} = {value}`" for name, value in fields.items() if value is not None)
