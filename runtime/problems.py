"""Problems of a program with their dates: since when each is, and until when it was.

Its rules and its shell say which problems there are now. When each began and ended is noted here,
so that nothing is shown that is over, and nothing without its date.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timezone

from fleetledger.runtime.shown_commands import with_homes
from fleetledger.runtime.strict import Strict

PATIENCE_SECONDS = 60.0
"""For so long a program may be kept waiting before that is a problem."""
REMEMBERED = 20
"""Problems that are shown, and as many that are over."""
CERTIFICATE = "certificate"
"""About a certificate that ends soon: it hinders nothing yet, and is told all the same."""
HELD = (
    "the database is locked by another program, such as a backup; let that end, and back up with "
    "`sqlite3 FILE '.backup COPY'`, which holds nothing"
)
PAST_SECONDS = 86_400.0
"""For so long a problem that is over, or a thing that happened, is shown."""


@dataclass(frozen=True)
class OpenProblem:
    """A problem as it is now."""

    about: str
    text: str
    hinders: bool = False
    """Whether it keeps the program from its work."""
    patience: float = 0.0
    """Seconds for which it may last before it is one."""
    key: str = ""
    """Names it while its text changes; left out, its text does."""

    @property
    def identity(self) -> tuple[str, str]:
        """What it is recognised by from one look to the next."""
        return self.about, self.key or self.text


class DatedProblem(Strict):
    """A problem as it is shown; times in nanoseconds since 1970."""

    about: str
    text: str
    since_ns: int
    until_ns: int | None = None
    """None while it is so."""
    hinders: bool = False

    def __str__(self) -> str:
        began = _local(self.since_ns)
        if self.until_ns is None:
            return f"since {began}: {self.text}"
        if self.until_ns == self.since_ns:
            return f"at {began}: {self.text}"
        return f"from {began} to {_local(self.until_ns)}: {self.text}"


@dataclass(frozen=True)
class _Known:
    problem: OpenProblem
    since: float
    """By the clock that does not go back."""
    since_ns: int

    def dated(self, until_ns: int | None = None) -> DatedProblem:
        found = self.problem
        return DatedProblem(
            about=found.about,
            text=with_homes(found.text),
            since_ns=self.since_ns,
            until_ns=until_ns,
            hinders=found.hinders,
        )


class ProblemBook:
    """What is wrong now, and what was; for one thread."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], _Known] = {}
        self._past: list[tuple[float, DatedProblem]] = []
        self._now = 0.0

    def happened(self, problem: OpenProblem, now: float, time_ns: int) -> None:
        """Note what went wrong at one moment, and is over by that."""
        others = [item for item in self._past if item[1].text != with_homes(problem.text)]
        self._past = [*others, (now, _Known(problem, now, time_ns).dated(time_ns))]

    def update(
        self, problems: Iterable[OpenProblem], now: float, time_ns: int
    ) -> tuple[list[DatedProblem], list[DatedProblem]]:
        """Take in what is wrong now; return what is told from here on, and what is over."""
        told = {key for key, known in self._known.items() if self._is_told(known)}
        open_now = {problem.identity: problem for problem in problems}
        over = []
        for key in [key for key in self._known if key not in open_now]:
            known = self._known.pop(key)
            if key in told:
                over.append(known.dated(time_ns))
        for key, problem in open_now.items():
            known = self._known.get(key, _Known(problem, now, time_ns))
            self._known[key] = replace(known, problem=problem)
        self._now = now
        kept = [item for item in self._past if now - item[0] < PAST_SECONDS]
        self._past = [*kept, *((now, problem) for problem in over)][-REMEMBERED:]
        new = [
            known.dated()
            for key, known in self._known.items()
            if key not in told and self._is_told(known)
        ]
        return new, over

    @property
    def current(self) -> tuple[DatedProblem, ...]:
        """Problems that have outlasted their patience: first those that hinder, then the newest."""
        told = [known for known in self._known.values() if self._is_told(known)]
        told.sort(key=lambda known: (not known.problem.hinders, -known.since))
        return tuple(known.dated() for known in told[:REMEMBERED])

    @property
    def past(self) -> tuple[DatedProblem, ...]:
        """Problems that are over, the last to end first."""
        return tuple(problem for _, problem in reversed(self._past))

    def _is_told(self, known: _Known) -> bool:
        return self._now - known.since >= known.problem.patience


def _local(time_ns: int) -> str:
    there = datetime.fromtimestamp(time_ns / 1e9, tz=timezone.utc).astimezone()
    return f"{there:%Y-%m-%d %H:%M:%S}"
