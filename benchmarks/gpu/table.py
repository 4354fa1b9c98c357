"""What was measured as tables in Markdown, beside the estimates that were made without a GPU.

An estimate is by reading the code and counting its calls, for one H100, a factor of two either
way; it was made before copies and waits were taken out of a step. It is nothing that was measured,
and stands in a column of its own that says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

ESTIMATES: Mapping[str, str] = {
    "fedhaf, stack": "0.06 to 0.1 s a round",
    "fedhaf, loop": "2.5 s a round",
    "stsa first stage, loop": "40 to 75 s for 8,400 steps",
    "lga later task, loop": "1.5 to 2.2 h for 780,000 steps, of all tasks",
}
"""By the first words of a row's name; for one H100."""

GOALS = (
    "Goals, which nothing here says are reached: FedHAF's stack 20 times as fast as its loop; the "
    "GPU computes in 80 % of the time."
)

_SPEED = (
    "| round of local training | s a round, median (range, runs) | agents/s | steps/s | "
    "GPU computes | peak memory | its protocol's steps, extrapolated | estimate for one H100, "
    "not measured |"
)


def table(found: Mapping[str, Any]) -> str:
    """Return all tables of a file of results."""
    about, entries = found["about"], found["entries"]
    lines = [_title(about), "", *_studies(entries), _SPEED, "| --- |" + " ---: |" * 6 + " --- |"]
    lines += [_speed(name, entry) for name, entry in entries.items() if "seconds" in entry]
    lines += ["", *_ratios(entries), "", GOALS, ""]
    lines += ["| compared | apart | allowed | equal |", "| --- | ---: | ---: | --- |"]
    lines += [_check(name, entry) for name, entry in entries.items() if "apart" in entry]
    failed = [(name, entry) for name, entry in entries.items() if "failed" in entry]
    lines += ["", *(f"- {name}: failed: {entry['failed']}" for name, entry in failed)]
    return "\n".join(lines).rstrip() + "\n"


def _studies(entries: Mapping[str, Any]) -> Iterator[str]:
    """Yield the table of whole protocols, where there is any."""
    rows = {name: entry for name, entry in entries.items() if "printed" in entry}
    if not rows:
        return
    yield "| protocol in small | % after each task, here | as printed | at its end | s |"
    yield "| --- | --- | --- | --- | ---: |"
    for name, entry in rows.items():
        here = ", ".join(f"{value:.1f}" for value in entry["accuracy"]) or "-"
        printed = ", ".join("-" if value is None else f"{value:g}" for value in entry["printed"])
        printed = printed or "-"
        ended = "no" if "unfinished" in entry else "yes"
        yield f"| {name} | {here} | {printed} | {ended} | {entry['study_seconds']:,.0f} |"
    yield ""


def _title(about: Mapping[str, Any]) -> str:
    machine = about["machine"]
    told = [f"torch {machine['torch']}", f"Python {machine['python']}", machine["cpu"]]
    if "card" in machine:
        told = [
            machine["card"],
            f"driver {machine['driver']}",
            f"CUDA {machine['cuda']}",
            f"cuDNN {machine['cudnn']}",
            *told,
        ]
    size = ", in a tiny size that says nothing of speed" if about["small"] else ""
    return f"On {about['device']}{size}: {', '.join(told)}."


def _speed(name: str, entry: Mapping[str, Any]) -> str:
    seconds = entry["seconds"]
    took = f"{seconds['median']:.3g} ({seconds['lowest']:.3g} to {seconds['highest']:.3g}, "
    protocol, peak = entry.get("protocol"), entry["peak_bytes"]
    cells = [
        name,
        f"{took}{seconds['runs']})",
        f"{entry['agents_per_second']:.3g}",
        f"{entry['steps_per_second']:.3g}",
        _computing(entry["gpu"]),
        "-" if peak is None else f"{peak['tensors'] / 2**20:,.0f} MiB",
        f"{protocol['extrapolated_seconds']:,.0f} s" if protocol else "-",
        estimate_of(name) or "-",
    ]
    return f"| {' | '.join(cells)} |"


def _computing(gpu: Mapping[str, Any] | None) -> str:
    if gpu is None:
        return "-"
    if gpu["share"] is None:
        return "not seen by the profiler"
    return f"{gpu['share']:.1%}"


def estimate_of(name: str) -> str | None:
    """Return the estimate that goes with a row."""
    return next((text for start, text in ESTIMATES.items() if name.startswith(start)), None)


def _ratios(entries: Mapping[str, Any]) -> Iterator[str]:
    """Yield how many times as fast as the loop each stack is, in the same precision."""
    for name, entry in entries.items():
        case, _, how = name.partition(", ")
        loop = entries.get(f"{case}, loop, {name.rpartition(', ')[2]}", {})
        if how.startswith("stack of") and "seconds" in entry and "seconds" in loop:
            ratio = loop["seconds"]["median"] / entry["seconds"]["median"]
            yield f"- {case}: {how} trains {ratio:.3g} times as many agents per second as the loop."


def _check(name: str, entry: Mapping[str, Any]) -> str:
    apart = entry["apart"]
    told = apart if isinstance(apart, str) else f"{apart:.1e}"
    return f"| {name} | {told} | {entry['within']:.0e} | {'yes' if entry['equal'] else '**no**'} |"
