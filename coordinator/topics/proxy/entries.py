"""What a proxy leads to: which old models devices are given, and why."""

from __future__ import annotations

import logging
from typing import ClassVar

from fleetledger.coordinator.core.entry import EntryBody, EntryContext
from fleetledger.coordinator.core.kind import Follows, Kind, LedgerTopic
from fleetledger.coordinator.topics.lineages.entries import LINEAGE_KINDS, Lineage
from fleetledger.coordinator.topics.proxy.state import Chosen, OldModel, OldModelsState
from fleetledger.runtime.count_words import count_of
from fleetledger.schemas.proxy import Scored, ScoredModel
from fleetledger.schemas.rounds import RoundNumber


class OldModelChosen(EntryBody):
    """The proxy scored what a round gave, and chose the old models that devices get from here on.

    Scores are the proxy's word: neither the images that it scores by nor their gradients are known
    to the coordinator.
    """

    kind: ClassVar[str] = "old-model.chosen"
    number: RoundNumber
    """The round that gave the newest model."""
    answer: Scored
    """What the proxy said, by which a repeat is known."""
    winner: ScoredModel | None
    """The best of the models that were compared for the present task; of equal ones the last."""
    previous: OldModel | None
    """The old model of devices that are in the present task."""
    current: OldModel | None
    """The old model of devices that enter the next one."""

    def say(self, at: EntryContext) -> str:
        notes = "".join(f" Note: {remark}." for remark in self.answer.remarks)
        return f"{_scored(self)} {_distilled(self)}{notes}"


def _choose(proxy: OldModelsState, body: OldModelChosen, at: EntryContext) -> None:
    proxy.chosen = Chosen(at.index, body.answer, body.previous, body.current)
    proxy.settled = max(proxy.settled, body.answer.action)


def _scored(body: OldModelChosen) -> str:
    said = body.answer
    if said.newest is None or body.winner is None:
        return f"The proxy has nothing to score the model of round {body.number} by."
    task = " New gradients began a task with this round." if said.shifted else ""
    compared = ", ".join(f"round {model.round} {model.score:.3f}" for model in said.scored)
    return (
        f"The proxy scored the model of round {body.number} at {said.newest.score:.3f}, by "
        f"{count_of(said.images, 'image')} out of {count_of(said.gradients, 'set')} of "
        f"gradients.{task} Scores of this task: {compared}; the best is that of round "
        f"{body.winner.round}."
    )


def _distilled(body: OldModelChosen) -> str:
    within, entering = _slot(body.previous), _slot(body.current)
    if body.previous is None and body.current is None:
        return "Devices have no old model to distil from yet."
    return (
        f"Devices in the present task distil from {within}, those that enter the next one from "
        f"{entering}."
    )


def _slot(model: OldModel | None) -> str:
    if model is None:
        return "no old model yet"
    return f"the model of round {model.round} ({model.weights.digest.short})"


class OldModelMissed(EntryBody):
    """The proxy did not answer in time: devices go on with the old models that they have."""

    kind: ClassVar[str] = "old-model.missed"
    number: RoundNumber
    action: int
    seconds: float
    """How long it was waited for."""

    def say(self, at: EntryContext) -> str:
        return (
            f"The proxy did not score the model of round {self.number} within {self.seconds:g} s; "
            "devices go on with the old models that they have."
        )


def _miss(proxy: OldModelsState, body: OldModelMissed, _at: EntryContext) -> None:
    proxy.settled = body.action


def _begin_anew(proxy: OldModelsState, _body: Lineage, _at: EntryContext) -> None:
    proxy.chosen, proxy.settled = None, -1


PROXY = LedgerTopic(
    "proxy",
    kinds=(
        Kind(OldModelChosen, _choose),
        Kind(OldModelMissed, _miss, worth=logging.WARNING, trouble=True),
    ),
    follows=tuple(Follows(body, _begin_anew) for body in LINEAGE_KINDS),
)
