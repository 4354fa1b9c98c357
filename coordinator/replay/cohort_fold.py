"""Entries about cohorts, folded, so that their sums can be made again."""

from __future__ import annotations

from fleetledger.coordinator.core import work
from fleetledger.coordinator.core.entry import EntryBody, EntryContext
from fleetledger.coordinator.errors import LedgerError
from fleetledger.coordinator.ledger.entries import Entry
from fleetledger.coordinator.topics.classes.state import ClassRegistry
from fleetledger.coordinator.topics.cohorts import entries
from fleetledger.coordinator.topics.cohorts.requests import sum_request
from fleetledger.coordinator.topics.cohorts.state import CohortsState
from fleetledger.coordinator.topics.contributions.entries import (
    CONTRIBUTIONS,
    ContributionAccepted,
    ContributionRetracted,
)
from fleetledger.coordinator.topics.contributions.state import ContributionsState
from fleetledger.coordinator.topics.lineages.entries import Lineage
from fleetledger.coordinator.topics.lineages.state import LineagesState
from fleetledger.coordinator.topics.rounds.entries import RoundOpened

FOLDED: tuple[type[EntryBody], ...] = (
    *(kind.body for kind in entries.COHORTS.kinds),
    ContributionRetracted,
)
"""Kinds that are folded, beside those that a replay reads anyway."""


class CohortFold:
    """Cohorts and what was given in them."""

    def __init__(self) -> None:
        self._cohorts = CohortsState()
        self._given = ContributionsState(LineagesState(), ClassRegistry())
        self._changes = (
            dict(entries.COHORTS.on(self._cohorts)),
            dict(CONTRIBUTIONS.on(self._given)),
        )

    def apply(self, entry: Entry, body: EntryBody) -> None:
        """Fold an entry, if it is about cohorts."""
        masked = isinstance(body, ContributionAccepted) and body.part.cohort is not None
        of_cohort = isinstance(body, ContributionRetracted) and body.replaces in self._given.counted
        if not masked and not of_cohort and body.kind not in _COHORT_KINDS:
            return
        at = EntryContext(entry.index, entry.device, entry.time_ns)
        for changes in self._changes:
            if type(body) in changes:
                changes[type(body)](body, at)

    def request(
        self,
        index: int,
        body: entries.CohortSummed,
        lineage: Lineage,
        opened: RoundOpened | None,
    ) -> work.SumCohort:
        """Return how the sum that entry `index` records was made."""
        cohort = self._cohorts.by_number.get(body.number)
        given = self._given.masked.get(body.number, {})
        if cohort is None or set(cohort.present) - given.keys() or not cohort.opens():
            raise LedgerError(f"entry {index}: cohort {body.number} was not open before it")
        return sum_request(cohort, self._given, lineage, opened)


_COHORT_KINDS = {kind.body.kind for kind in entries.COHORTS.kinds}
