"""Registered classes, as the command line shows them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from fleetledger.coordinator.core.state_fold import state_of
from fleetledger.coordinator.ledger.reader import ledger_of
from fleetledger.schemas.command_report import Column


@dataclass(frozen=True)
class ClassRow:
    """A registered class."""

    index: Annotated[int, Column("index")]
    name: Annotated[str, Column("name")]
    aliases: Annotated[tuple[str, ...], Column("other names", ", ".join)]
    samples: Annotated[int, Column("samples")]


def classes(home: Path) -> list[ClassRow]:
    """Return the registered classes in the order of their indices."""
    with ledger_of(home) as ledger, ledger.snapshot():
        state = state_of(ledger)
    known, samples = state.classes, Counter[str]()
    for given in state.contributions.counted.given.values():
        samples.update(given)
    return [
        ClassRow(
            known.indices[name],
            name,
            known.aliases_of(name),
            sum(samples[one] for one in (name, *known.aliases_of(name))),
        )
        for name in known.names
    ]
