"""What is known of the ledger, and of who speaks for it."""

from __future__ import annotations

from dataclasses import dataclass

from fleetledger.device_agent.core.changes.actions import forget_actions
from fleetledger.device_agent.core.changes.durable import Durable
from fleetledger.device_agent.core.draft import Draft
from fleetledger.device_agent.core.records import (
    SignedNews,
)
from fleetledger.schemas.presence import SeenCheckpoint


@dataclass(frozen=True)
class CheckpointSeen(Durable):
    """A newer state of the ledger was proven to follow from the one that was known."""

    seen: SeenCheckpoint

    def __call__(self, draft: Draft) -> None:
        draft.seen = self.seen


@dataclass(frozen=True)
class CheckpointForgotten(Durable):
    """The owner lets the ledger begin anew: what it has proven, and its actions, are forgotten."""

    def __call__(self, draft: Draft) -> None:
        draft.seen, draft.heard, draft.silent = None, SignedNews(), 0.0
        forget_actions(draft, None)


@dataclass(frozen=True)
class HeardMore(Durable):
    """The coordinator has signed a newer run, more entries or a later time than any before."""

    heard: SignedNews

    def __call__(self, draft: Draft) -> None:
        draft.heard = self.heard


@dataclass(frozen=True)
class SilenceNoted(Durable):
    """Nothing new that is signed came for so long; 0 once something came."""

    seconds: float

    def __call__(self, draft: Draft) -> None:
        draft.silent = self.seconds
