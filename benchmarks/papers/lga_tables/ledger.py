"""What a run's ledger tells beside its metrics: which old models the proxy chose."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from fleetledger.coordinator.core.entry import EntryBody
from fleetledger.coordinator.core.state import read_entry
from fleetledger.coordinator.ledger.reader import LedgerReader
from fleetledger.coordinator.paths import ledger_path
from fleetledger.coordinator.topics.proxy.entries import OldModelChosen
from fleetledger.coordinator.topics.rounds.entries import RoundOpened


def bodies_of(home: Path) -> list[EntryBody]:
    """Return what happened, in order."""
    with LedgerReader.open_read_only(ledger_path(home)) as ledger:
        found = (ledger.entry(index) for index in range(ledger.size))
        return [read_entry(entry.kind, entry.body) for entry in found]


def choices(bodies: Iterable[EntryBody]) -> list[str]:
    """Return, for each stage with scores, what devices that enter the next one distil from.

    As stage and round of the model, such as `2.5`, and the lowest and highest score of the stage.
    """
    places: dict[int, str] = {}
    stages: dict[int, int] = {}
    chosen: dict[int, str] = {}
    scores: dict[int, list[float]] = {}
    for body in bodies:
        if isinstance(body, RoundOpened):
            stages[body.number] = body.stage
            places[body.number] = f"{body.stage}.{body.round_of_stage}"
        elif isinstance(body, OldModelChosen) and body.answer.newest and body.current:
            stage = stages[body.number]
            chosen[stage] = places[body.current.round]
            scores.setdefault(stage, []).append(body.answer.newest.score)
    return [
        f"{place} ({min(scores[stage]):.2f} to {max(scores[stage]):.2f})"
        for stage, place in chosen.items()
    ]
