"""Which old model devices are given: two slots, filled by the scores of the fleet's models.

    previous   the best model of the task before: the old model of devices that are in the task
    current    the best of the present task so far: the old model of devices that enter the next

At the first gradients of a task what was `current` becomes `previous` and scores begin anew; those
of a late joiner shift nothing. The released program shifts with every gradient that arrives, never
begins anew, and does not count the first rounds of a task.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from fleetledger.schemas.proxy import ScoredModel
from fleetledger.schemas.values import Digest


@dataclass(frozen=True)
class SlotRules:
    """How slots are filled."""

    best: bool = True
    """False: the newest model instead of the best (ablation w/oSBM)."""
    shift_always: bool = False
    """Shift with every arrival, not with a task's first."""
    begin_anew: bool = True
    """Forget the scores of the task before."""
    ignored_rounds: int = 0
    """First rounds of a task whose models count as if their score were 0."""


PAPER = SlotRules()
RELEASED = SlotRules(shift_always=True, begin_anew=False, ignored_rounds=6)


@dataclass(frozen=True)
class Slots:
    """The state: what is in the slots, and the scores of the present task."""

    task: int = 0
    """The newest stage of which gradients arrived; 0 before any."""
    previous: Digest | None = None
    current: Digest | None = None
    best: float | None = None
    scored: tuple[ScoredModel, ...] = ()

    def arrived(self, task: int, rules: SlotRules) -> Slots:
        """Return the slots after gradients of a task; those of an earlier task change nothing."""
        if task < self.task or (task == self.task and not rules.shift_always):
            return self
        begun = replace(self, task=task, previous=self.current)
        if task == self.task or not rules.begin_anew:
            return begun
        return replace(begun, best=None, scored=())

    def taken(self, model: ScoredModel, round_of_stage: int, rules: SlotRules) -> Slots:
        """Return the slots after a model was scored; of equal scores the later one stays."""
        score = model.score if round_of_stage > rules.ignored_rounds else 0.0
        counted = model.model_copy(update={"score": score})
        scored = replace(self, scored=(*self.scored, counted))
        if not rules.best:
            return replace(scored, current=model.weights, best=score)
        if self.best is not None and score < self.best:
            return scored
        return replace(scored, current=model.weights, best=score)
