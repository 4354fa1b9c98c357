"""What the person at the keyboard sees of a run: seed, stage, agents done, time left.

On a terminal two bars at the bottom change; elsewhere (a log, a pipe) every new phase is a line.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta
from types import TracebackType

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
)
from rich.text import Text
from typing_extensions import Self

from fleetledger.simulator.errors import SimulatorError
from fleetledger.simulator.records import RoundRecord, StageRecord
from fleetledger.simulator.run.expectation import Expectation
from fleetledger.simulator.run.reporting import Reporting


class BudgetSpentError(SimulatorError):
    """The time is over, and what was begun last is finished."""


class Budget:
    """So many seconds from now on; None never ends."""

    def __init__(self, seconds: float | None, clock: Callable[[], float] = time.monotonic) -> None:
        self.seconds = seconds
        self._clock = clock
        self._began = clock()

    def check(self) -> None:
        """Raise `BudgetSpentError` once the time is over."""
        if self.seconds is not None and self._clock() - self._began >= self.seconds:
            raise BudgetSpentError(f"budget: {self.seconds:g} s are spent")


class Screen:
    """Lines that stay, and bars that move; fits `simulator.engines.interface.Watch`."""

    def __init__(
        self,
        console: Console,
        seeds: int,
        get_time: Callable[[], float] | None = None,
        budget: Budget | None = None,
        reporting: Reporting | None = None,
    ) -> None:
        self.console = console
        self.reporting = reporting
        """Callbacks of the run; None without."""
        self._budget = budget or Budget(None)
        self._has_worked = False
        """Whether a round or a stage was finished here: a run gets on, however small its budget."""
        self.expectation: Expectation | None = None
        """Who says how long it will take."""
        self.seeds = seeds
        """How many seeds the run has."""
        self._seed = (0, 0)
        """Position of the seed in the run, from 0, and the seed."""
        self._stage = (0, 0)
        """Number of the stage, and how many there are."""
        self._round = (0, 1)
        """Rounds of the stage that are done, and how many there are."""
        self._told = ""
        self._remarked: set[str] = set()
        self.progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[count]}"),
            TimeElapsedColumn(),
            TimeLeftColumn(),
            console=console,
            get_time=get_time,
            disable=not console.is_terminal,
            transient=True,
        )
        self._whole = self.progress.add_task("starting", total=1.0, count="", left=True, begun=0.0)
        self._part = self.progress.add_task("", total=None, count="", left=False, visible=False)

    def __enter__(self) -> Self:
        self.progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.progress.stop()

    def seed(self, position: int, seed: int, finished: int, stages: int) -> None:
        """Say that the work on a seed begins; `finished` of its `stages` are done already."""
        self._seed = (position, seed)
        self._stage = (0, 0)
        former = finished / stages / self.seeds
        # What another process did took none of this one's time.
        begun = self.progress.tasks[self._whole].fields["begun"] + former
        self.progress.update(self._whole, completed=position / self.seeds + former, begun=begun)

    def say(self, text: str) -> None:
        """Show a line that stays."""
        self.console.print(text, markup=False, highlight=False, soft_wrap=True)

    def stage_done(self, seed: int, record: StageRecord, told: str) -> None:
        """Say what came of a stage, and what that means for the rest."""
        self.say(told)
        if self.expectation is not None:
            self.say_if_any(self.expectation.stage_done(seed, record))

    def say_if_any(self, text: str) -> None:
        """Print a line above the bars, unless it is empty."""
        if text:
            self.say(text)

    def stage(self, number: int, total: int) -> None:
        """Say that a stage begins; it may be said by runner and engine.

        Raises `BudgetSpentError` where there is no time left for it.
        """
        if self._stage == (number, total):
            return
        if self._has_worked:
            self._budget.check()
        self._has_worked = True
        self._stage, self._round = (number, total), (0, 1)
        if self.expectation is not None:
            self.expectation.stage_begins()
        position, seed = self._seed
        name = f"seed {seed}" + (f" ({position + 1} of {self.seeds})" if self.seeds > 1 else "")
        self.progress.update(self._whole, description=name, count=f"stage {number} of {total}")
        self._advance(0.0)
        self._show_part("", None)
        if not self.console.is_terminal:
            self.say(f"{name}, stage {number} of {total}")

    def remark(self, text: str) -> None:
        """Show what a person should read, once."""
        if text not in self._remarked:
            self._remarked.add(text)
            self.say(f"note: {text}")

    def phase(self, text: str) -> None:
        """Say that something else begins; after a colon may stand how far it is."""
        what = text.partition(":")[0]
        if what != self._told:
            self.progress.reset(self._part)  # so that its clock shows the time of this phase
            if not self.console.is_terminal:
                self.say(f"  {what}")
        self._told = what
        self._show_part(text, None)

    def round_ended(self, record: RoundRecord) -> None:
        """Tell the callbacks of a round."""
        if self.reporting is not None:
            self.reporting.round(record)

    def round(self, done: int, total: int) -> None:
        """Say how many rounds of the stage are done; raise `BudgetSpentError` as `stage` does."""
        self._round = (done, total)
        number, stages = self._stage
        told = f"stage {number} of {stages}, round {min(done + 1, total)} of {total}"
        self.progress.update(self._whole, count=told)
        self._advance(0.0)
        if self.expectation is not None and 0 < done < total:
            self.say_if_any(self.expectation.round_done(done))
        if 0 < done < total:  # a stage with its last round is finished first
            self._budget.check()

    def agents(self, done: int, total: int) -> None:
        """Say how many agents have done their part of the stage, or of the round."""
        self._advance(done / total if total else 0.0)
        self._show_part("agents done", (done, total))

    def _advance(self, share_of_round: float) -> None:
        rounds_done, rounds = self._round
        number, stages = self._stage
        done = number - 1 + min(1.0, (rounds_done + share_of_round) / rounds)
        share = (self._seed[0] + done / stages) / self.seeds
        if share > self.progress.tasks[self._whole].completed:  # nothing turns the bar back
            self.progress.update(self._whole, completed=share)

    def _show_part(self, text: str, count: tuple[int, int] | None) -> None:
        done, total = count or (0, None)
        shown = "" if count is None else f"{done:,} of {total:,}"
        self.progress.update(
            self._part,
            description=f"  {text}",
            completed=done,
            total=total,
            count=shown,
            visible=bool(text),
        )


class TimeLeftColumn(ProgressColumn):
    """How long the rest takes at the pace so far, in a task that has the field `left`."""

    def render(self, task: Task) -> Text:
        """Return it as h:mm:ss, or nothing where it is not known."""
        if not task.fields["left"]:
            return Text("")
        done = task.completed - task.fields["begun"]
        if not done > 0 or task.elapsed is None or task.total is None:
            return Text("-:--:-- left", style="progress.remaining")
        left = task.elapsed * (task.total - task.completed) / done
        return Text(f"{timedelta(seconds=round(left))} left", style="progress.remaining")
