"""Arguments that commands of several measurements take."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Collection


def names_among(known: Collection[str]) -> Callable[[str], list[str]]:
    """Return what reads names with commas between them, and refuses one that is not known."""

    def read(text: str) -> list[str]:
        names = text.split(",")
        unknown = sorted(set(names) - set(known))
        if unknown:
            raise argparse.ArgumentTypeError(f"{unknown[0]!r} is none of {', '.join(known)}")
        return names

    return read
