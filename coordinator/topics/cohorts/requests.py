"""What a worker, or a replay, needs to take the masks off the sum of a cohort."""

from __future__ import annotations

from fleetledger.coordinator.core.work import MemberWords, SumCohort
from fleetledger.coordinator.topics.cohorts.state import CohortProgress
from fleetledger.coordinator.topics.contributions.state import ContributionsState
from fleetledger.coordinator.topics.lineages.entries import Lineage
from fleetledger.coordinator.topics.rounds.entries import RoundOpened
from fleetledger.schemas.cohorts import cohort_device


def sum_request(
    cohort: CohortProgress,
    contributions: ContributionsState,
    lineage: Lineage,
    opened: RoundOpened | None,
) -> SumCohort:
    """Return the request for the sum of a cohort that enough shares open."""
    given = contributions.masked.get(cohort.body.number, {})
    undone = (contributions.of(cohort_device(number)) for number in cohort.undoes)
    return SumCohort(
        cohort=cohort.body,
        lineage=lineage,
        words=tuple(MemberWords(who, given[who].payload) for who in cohort.present),
        silent=cohort.silent,
        seeds={who: dict(seeds) for who, seeds in cohort.seeds.items()},
        shares={who: dict(shares) for who, shares in cohort.shares.items()},
        undone=tuple(held.payload for one in undone for held in one.held_parts()),
        round=opened,
    )
