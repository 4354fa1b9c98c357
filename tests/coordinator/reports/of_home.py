"""What the ledger of a coordinator's home says, for tests that have the home alone."""

from __future__ import annotations

from pathlib import Path

from fleetledger.coordinator.core.state_fold import state_of
from fleetledger.coordinator.ledger.reader import ledger_of
from fleetledger.coordinator.reports.contributions import ClassFacts, class_facts
from fleetledger.coordinator.reports.stages import StageFacts, all_stages
from fleetledger.coordinator.topics.rounds.state import RoundFacts


def stages(home: Path) -> list[StageFacts]:
    """Return the stages, oldest first."""
    with ledger_of(home) as ledger:
        return all_stages(ledger)


def rounds(home: Path) -> list[RoundFacts]:
    """Return the rounds, oldest first."""
    with ledger_of(home) as ledger:
        return list(state_of(ledger).rounds.facts.values())


def classes(home: Path) -> list[ClassFacts]:
    """Return the classes in the order of their indices."""
    with ledger_of(home) as ledger:
        return class_facts(ledger)
