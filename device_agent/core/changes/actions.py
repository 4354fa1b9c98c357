"""What the coordinator wants of the device: assignment and desired model, and what came of them."""

from __future__ import annotations

from dataclasses import dataclass

from device_agent.core.changes.durable import Durable
from device_agent.core.draft import Draft
from device_agent.core.records import (
    Waited,
)
from schemas.assignments import Assignment
from schemas.models import DesiredModel, ModelStatus
from schemas.values import BootId


@dataclass(frozen=True)
class AssignmentTaken(Durable):
    """A newer assignment replaces the one that was known."""

    assignment: Assignment
    ledger_boot: BootId

    def __call__(self, draft: Draft) -> None:
        draft.assignment, draft.ledger_boot = self.assignment, self.ledger_boot


@dataclass(frozen=True)
class DesiredTaken(Durable):
    """A newer desired model replaces the one that was known."""

    desired: DesiredModel
    ledger_boot: BootId

    def __call__(self, draft: Draft) -> None:
        draft.desired, draft.ledger_boot = self.desired, self.ledger_boot


@dataclass(frozen=True)
class ActionsForgotten(Durable):
    """The ledger is shorter than it was: its actions begin anew."""

    ledger_boot: BootId

    def __call__(self, draft: Draft) -> None:
        forget_actions(draft, self.ledger_boot)


@dataclass(frozen=True)
class ActionEnded(Durable):
    """A desired model was brought to an end, and this is what is reported of it."""

    action: int | None
    """None when the active model failed by itself, without a new action."""
    status: ModelStatus

    def __call__(self, draft: Draft) -> None:
        draft.status = self.status
        if self.action is not None:
            draft.acted = self.action


@dataclass(frozen=True)
class WaitNoted(Durable):
    """A desired model has been waited for so long; forgotten with the next one's."""

    waited: Waited

    def __call__(self, draft: Draft) -> None:
        draft.waited = self.waited


def forget_actions(draft: Draft, ledger_boot: BootId | None) -> None:
    """Forget what a ledger wanted that is not there any more."""
    draft.assignment = draft.desired = draft.acted = draft.waited = None
    draft.ledger_boot = ledger_boot
    draft.nothing.clear()
    draft.reported.clear()
