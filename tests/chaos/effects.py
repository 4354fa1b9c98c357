"""Crash points between any two effects of a program: commits, messages, work, files.

The programs of a simulated fleet share one thread and take turns. `CrashPoints` knows whose turn it
is; every effect before and after which that program may end calls `point`. Effects on files come
from `tests.chaos.disk`, the others are methods that are wrapped while `CrashPoints` is entered.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

from typing_extensions import Self

from tests.chaos.faults import FILE_EFFECTS, Crash


class SimulatedCrash(BaseException):
    """The program ends here. No `except Exception` catches it, as nothing catches a power cut."""


@dataclass
class Victim:
    """A program and the crashes that are in store for it, one after the other."""

    name: str
    crashes: deque[Crash] = field(default_factory=deque)
    fatal: Crash | None = None
    """The crash that has ended the program; None while it runs."""
    place: str = ""
    """The effect at which it ended."""
    _passed: Counter[str] = field(default_factory=Counter)

    def passes(self, effect: str) -> None:
        """Take in a crash point; raise `SimulatedCrash` if the program ends there, or has ended.

        What a dead program would do while its error rises does not happen.
        """
        if self.fatal is None and self.crashes:
            crash = self.crashes[0]
            self._passed.update(("file",) if effect in FILE_EFFECTS else (effect,))
            passed = self._passed[crash.kind] if crash.kind else self._passed.total()
            if passed > crash.after:
                self.fatal, self.place = self.crashes.popleft(), effect
        if self.fatal is not None:
            raise SimulatedCrash(f"{self.name} at {self.place}")

    def restart(self) -> None:
        """Begin anew; effects are counted from here."""
        self.fatal, self.place = None, ""
        self._passed.clear()


class CrashPoints:
    """Tells the program whose turn it is about every effect; wraps `methods` while entered."""

    def __init__(self, methods: Iterable[tuple[type, str, str]]) -> None:
        """Each of `methods` is a class, the name of a method, and the name of its effect."""
        self._methods = tuple(methods)
        self._turn: Victim | None = None
        self._patches = ExitStack()

    def __enter__(self) -> Self:
        for owner, name, effect in self._methods:
            wrapped = self._wrapped(getattr(owner, name), effect)
            self._patches.enter_context(patch.object(owner, name, wrapped))
        return self

    def __exit__(self, *_: object) -> None:
        self._patches.close()

    @contextmanager
    def turn(self, victim: Victim) -> Iterator[None]:
        """Let the effects inside be those of `victim`."""
        before, self._turn = self._turn, victim
        try:
            yield
        finally:
            self._turn = before

    def point(self, effect: str) -> None:
        """Pass a crash point of the program whose turn it is; of no effect between turns."""
        if self._turn is not None:
            self._turn.passes(effect)

    def _wrapped(self, original: Callable[..., Any], effect: str) -> Callable[..., Any]:
        def wrapped(*arguments: Any, **options: Any) -> Any:
            self.point(effect)
            result = original(*arguments, **options)
            self.point(effect)
            return result

        return wrapped
