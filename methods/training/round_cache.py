"""Cache of what every answer to a round needs and no answer changes."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Generic, TypeVar

Made = TypeVar("Made")


class RoundCache(Generic[Made]):
    """Keeps what was last made of a round, while the object that describes the round lives.

    The same object with an equal `assignment` gets the same thing. Threads may share it: the worst
    that can happen is that something is made twice.
    """

    def __init__(self) -> None:
        self._kept: tuple[weakref.ref[object], object, Made] | None = None

    def __call__(self, told: object, assignment: object, make: Callable[[], Made]) -> Made:
        """Return what `make` gives, or gave for this `told` (a `RoundOrder`, an `Asked`)."""
        kept = self._kept
        if kept is not None and kept[0]() is told:
            known = kept[1]
            if known is assignment or known == assignment:  # to compare takes long
                return kept[2]
        made = make()
        self._kept = (weakref.ref(told, self._forget), assignment, made)
        return made

    def _forget(self, gone: weakref.ref[object]) -> None:
        if self._kept is not None and self._kept[0] is gone:
            self._kept = None
