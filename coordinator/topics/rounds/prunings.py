"""Blobs that entries say were deleted on purpose.

A copy of a ledger that lacks a blob is believed only where an entry says so: a mark beside the
ledger can be made by whoever writes there.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from fleetledger.coordinator.ledger.entries import Entry
from fleetledger.coordinator.topics.cohorts.entries import CohortPruned
from fleetledger.coordinator.topics.contributions.entries import ContributionAccepted
from fleetledger.coordinator.topics.rounds.entries import AnswersPruned, WeightsPruned
from fleetledger.schemas.values import Digest


@dataclass
class Prunings:
    """Follows the entries of a ledger, with the blobs that are missing of each."""

    _missing: dict[Digest, int | None] = field(default_factory=dict)
    """Missing blobs, with the round that each answered; None where it is no answer."""
    _named: set[str] = field(default_factory=set)
    _rounds: set[int] = field(default_factory=set)

    def apply(self, entry: Entry, missing: Collection[Digest]) -> None:
        """Take in the next entry, of whose blobs these are missing."""
        body = entry.body
        if entry.kind in {WeightsPruned.kind, CohortPruned.kind}:
            self._named.update(body["digests"])
        elif entry.kind == AnswersPruned.kind:
            self._rounds.update((body["number"], *body.get("began", ())))
        if not missing:
            return
        answer = body["part"]["round"] if entry.kind == ContributionAccepted.kind else None
        answers = None if answer is None else answer["number"]
        for digest in missing:
            self._missing.setdefault(digest, answers)

    def unexplained(self) -> Digest | None:
        """Return a missing blob that no entry says was deleted; None where there is none."""
        return next(
            (
                digest
                for digest, answers in self._missing.items()
                if digest not in self._named and answers not in self._rounds
            ),
            None,
        )
