"""Runs of a device, and the proof that two of them were alive at the same time.

An installation runs once at a time, one run after the other, and a birth names the runs that it
follows. So a run that speaks after a later one was alive is of another installation, be it one of
its own or a copy of the same files.

Messages come late, twice and in another order, and a broker keeps births and tells of deaths long
after them. So only what cannot be late counts as a sign of life: what a run can only say once it
has had our answer to its birth, and what refers to a birth of ours that was published since. A run
that comes back without such a sign is asked for one, by a birth of ours.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from fleetledger.schemas.values import BootId

_ASKED_AGAIN_NS = 2_000_000_000
_LONGEST_NS = 300_000_000_000
_MOST_RUNS = 256

Verdict = Literal["known", "unproven", "asked", "follows", "replaces", "doubled"]
"""What a message says of the run that sent it; `asked` is one that is to be asked for a sign."""


@dataclass(eq=False, slots=True)
class DeviceRun:
    """One run of an installation, from start to end."""

    boot: BootId
    installation: BootId
    formers: tuple[BootId, ...] = ()
    """The runs of its installation before it, newest first."""
    turn: int = -1
    """The turn in which its birth was first heard."""
    since: int = 0
    """How many births of ours there were then."""
    spoke: bool = False
    """Whether it was the one that runs, once."""

    def continues(self, other: DeviceRun) -> bool:
        """Return whether it is the other run, or one that the same installation had after it.

        A run whose birth was not heard names no earlier ones; its installation's name is believed.
        """
        if self.boot == other.boot or other.boot in self.formers:
            return True
        return not self.formers and self.installation == other.installation


@dataclass(frozen=True)
class Sign:
    """What a message shows of its sender, beside the words in it."""

    welcomed: bool = False
    """Only who has had our answer to its birth can say this."""
    announcement: int | None = None
    """The number of our birth that it refers to."""


@dataclass(slots=True)
class RunWatch:
    """The runs that spoke under one name since the coordinator started."""

    runs: dict[BootId, DeviceRun] = field(default_factory=dict)
    last: DeviceRun | None = None
    """The one that was proven to be alive last."""
    replaced: tuple[DeviceRun, ...] = ()
    """Those that another installation followed, which may come back."""
    replaced_ns: int | None = None
    """When the last of them was followed by another installation."""
    turn: int = 0
    since: int = 0
    """How many births of ours there were when `last` came to be the last."""
    asked_ns: int | None = None
    pause_ns: int = _ASKED_AGAIN_NS

    def begin(self, run: DeviceRun, announcements: int) -> None:
        """Take a run for the one that is alive: the first heard of, or whom the operator chose."""
        run.spoke = True
        self.runs[run.boot] = run
        self.last, self.since = run, announcements
        self.replaced = ()
        self.replaced_ns = self.asked_ns = None
        self.turn += 1

    def set_back(self, by_ns: int) -> None:
        """Move what was noted with the times of entries, as they are set back."""
        if self.replaced_ns is not None:
            self.replaced_ns -= by_ns
        if self.asked_ns is not None:
            self.asked_ns -= by_ns

    def note(self, run: DeviceRun, announcements: int) -> DeviceRun:
        """Note a run whose birth was heard; return what is known of it."""
        run.turn, run.since = self.turn, announcements
        if len(self.runs) >= _MOST_RUNS:
            kept = {self.last, *self.replaced}
            self.runs = {boot: item for boot, item in self.runs.items() if item in kept}
        return self.runs.setdefault(run.boot, run)

    def observe(self, run: DeviceRun, sign: Sign, announcements: int, now_ns: int) -> Verdict:
        """Judge a message of a run that is known; `announcements` counts our births so far."""
        assert self.last is not None
        if run is self.last:
            return "known"
        # Who refers to none of our births may have been welcomed by the coordinator before us.
        heard_us = sign.announcement is not None
        answered_since = sign.welcomed and heard_us and run.turn == self.turn and not run.spoke
        asked_since = sign.announcement is not None and sign.announcement >= self.since
        if not answered_since and not asked_since:
            late = run.spoke or run.turn != self.turn
            return "asked" if late and self._may_ask(now_ns) else "unproven"
        if run.spoke or any(run.continues(other) for other in self.replaced):
            return "doubled"
        follows = run.continues(self.last)
        if not follows:
            self.replaced = (*self.replaced, self.last)
            self.replaced_ns = now_ns
        run.spoke = True
        self.last, self.since = run, announcements
        self.turn += 1
        self.pause_ns = _ASKED_AGAIN_NS
        return "follows" if follows else "replaces"

    def _may_ask(self, now_ns: int) -> bool:
        """Whether to ask once more; who only sends again what was said before is asked seldom."""
        if self.asked_ns is not None and now_ns - self.asked_ns < self.pause_ns:
            return False
        if self.asked_ns is not None:
            self.pause_ns = min(2 * self.pause_ns, _LONGEST_NS)
        self.asked_ns = now_ns
        return True
