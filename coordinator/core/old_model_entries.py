"""The kinds of ledger entry that a proxy leads to: which old models devices are given, and why."""

from __future__ import annotations

from typing import ClassVar

from coordinator.core.entry import EntryBody
from schemas.message import Strict
from schemas.offers import Offer
from schemas.proxy import Scored, ScoredModel
from schemas.rounds import RoundNumber


class OldModel(Strict):
    """Weights of the fleet that devices distil from, and the round that gave them."""

    round: RoundNumber
    weights: Offer


class OldModelChosen(EntryBody):
    """The proxy scored what a round gave, and chose the old models that devices get from here on.

    Scores are the proxy's word: neither the images that it scores by nor their gradients are known
    to the coordinator.
    """

    kind: ClassVar[str] = "old-model.chosen"
    number: RoundNumber
    """The round that gave the newest model."""
    action: int
    """Ledger index of that model's entry, which the proxy was asked about."""
    newest: ScoredModel | None
    """None where there was nothing to score by."""
    scored: tuple[ScoredModel, ...]
    """All that were compared for the present task."""
    winner: ScoredModel | None
    """The best of these; of equal ones the last."""
    previous: OldModel | None
    """The old model of devices that are in the present task."""
    current: OldModel | None
    """The old model of devices that enter the next one."""
    gradients: int
    """Sets of gradients that the proxy has for the present task."""
    images: int
    """Images that they gave."""
    shifted: bool
    """Whether new gradients began a task with this round."""
    seconds: float
    remarks: tuple[str, ...] = ()

    @property
    def answer(self) -> Scored:
        """What the proxy said, by which a repeat is known."""
        return Scored(
            action=self.action,
            newest=self.newest,
            scored=self.scored,
            previous=None if self.previous is None else self.previous.weights.digest,
            current=None if self.current is None else self.current.weights.digest,
            gradients=self.gradients,
            images=self.images,
            shifted=self.shifted,
            seconds=self.seconds,
            remarks=self.remarks,
        )


class OldModelMissed(EntryBody):
    """The proxy did not answer in time: devices go on with the old models that they have."""

    kind: ClassVar[str] = "old-model.missed"
    number: RoundNumber
    action: int
    seconds: float
    """How long it was waited for."""
