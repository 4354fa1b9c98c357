"""What a side prints when it is done; standard library only, since peers import it too."""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from itertools import pairwise
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
