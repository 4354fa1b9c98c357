"""The console that prints for people: of the terminal's width, and one line for a line elsewhere.

`COLUMNS`, `NO_COLOR` and `FORCE_COLOR` mean what they mean to rich, whose console it is.
"""

from __future__ import annotations

import os
import sys

from rich.console import Console

UNBROKEN = 100_000
"""Characters of a line where nothing says how many fit."""


def console_for_people(*, stderr: bool = False) -> Console:
    """Return a console on standard output or error; a pipe has room for every line and column."""
    stream = sys.stderr if stderr else sys.stdout
    limited = stream.isatty() or os.environ.get("COLUMNS", "").isdecimal()
    return Console(stderr=stderr, width=None if limited else UNBROKEN)
