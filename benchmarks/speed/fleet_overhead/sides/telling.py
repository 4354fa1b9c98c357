"""What a side prints when it is done; standard library only, since peers import it too."""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

STEP = 1e-4
"""What every agent adds to the weights that it was sent."""


class Mark(NamedTuple):
    """A moment, by the clock on the wall and by that of this process's work."""

    wall: float
    process: float


def mark() -> Mark:
    """Return now."""
    return Mark(time.perf_counter(), time.process_time())


def mark_all() -> Mark:
    """Return now, with the processor's seconds of the programs that this one has begun, too."""
    here = mark()
    return Mark(here.wall, here.process + _seconds_beside(os.getpid()))


def _seconds_beside(parent: int) -> float:
    """Return what the descendants of a process have spent, of those that still run."""
    spent: dict[int, float] = {}
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            fields = (folder / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        spent[int(folder.name)] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        children.setdefault(int(fields[1]), []).append(int(folder.name))
    waiting, total = list(children.get(parent, ())), 0.0
    while waiting:
        one = waiting.pop()
        total += spent[one]
        waiting += children.get(one, ())
    return total


def tell(marks: Sequence[Mark], packages: Sequence[str], more: Mapping[str, object]) -> None:
    """Print one line: seconds of each round, from `marks` before the first and after each."""
    line = {
        "round_seconds": [round(b.wall - a.wall, 4) for a, b in pairwise(marks)],
        "round_process_seconds": [round(b.process - a.process, 4) for a, b in pairwise(marks)],
        "own_peak_mib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1),
        "versions": {name: version(name) for name in packages},
        **more,
    }
    sys.stdout.write(f"\n{json.dumps(line)}\n")


def numbers(arguments: Sequence[str]) -> tuple[int, int, int]:
    """Return agents, floats and rounds of a command line."""
    agents, floats, rounds = (int(value) for value in arguments)
    return agents, floats, rounds
