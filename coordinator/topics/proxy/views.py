"""Old models, as the command line shows them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fleetledger.coordinator.ledger.reader import LedgerReader
from fleetledger.coordinator.topics.proxy.entries import OldModelChosen, OldModelMissed
from fleetledger.runtime.command_report import Column


@dataclass(frozen=True)
class OldModelRow:
    """What the proxy made of what a round gave; models are named by the rounds that gave them."""

    round: Annotated[int, Column("round")]
    state: Annotated[str, Column("proxy")]
    score: Annotated[float | None, Column("score", "{:.3f}".format)]
    compared: Annotated[int | None, Column("compared")]
    best: Annotated[int | None, Column("best")]
    """The one with the best score of the present task."""
    previous: Annotated[int | None, Column("old model")]
    """The old model of devices in the present task."""
    current: Annotated[int | None, Column("for the next task")]
    """The old model of devices that enter the next one."""


def old_models(ledger: LedgerReader) -> list[OldModelRow]:
    """Return what a proxy scored and chose, oldest first; nothing where there is none."""
    return [
        _chosen(OldModelChosen.model_validate(entry.body))
        if entry.kind == OldModelChosen.kind
        else _missed(OldModelMissed.model_validate(entry.body))
        for entry in ledger.find(OldModelChosen, OldModelMissed)
    ]


def _chosen(body: OldModelChosen) -> OldModelRow:
    newest, winner = body.answer.newest, body.winner
    previous, current = body.previous, body.current
    return OldModelRow(
        body.number,
        "scored" if newest else "nothing to score by",
        newest.score if newest else None,
        len(body.answer.scored),
        winner.round if winner else None,
        previous.round if previous else None,
        current.round if current else None,
    )


def _missed(body: OldModelMissed) -> OldModelRow:
    return OldModelRow(body.number, f"no score within {body.seconds:g} s", *(None,) * 5)
