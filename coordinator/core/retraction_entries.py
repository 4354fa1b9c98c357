"""The kinds of ledger entry that a retraction by the operator leaves."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from coordinator.core.entry import EntryBody
from schemas.contributions import PartKey
from schemas.rounds import RoundNumber
from schemas.values import DeviceId, Digest

MAX_REASON = 300


class ContributionRetracted(EntryBody):
    """The operator took a device's part out of the sum, for good.

    Its bytes stay, so that the models which were solved with it can be made again.
    """

    kind: ClassVar[str] = "contribution.retracted"
    device: DeviceId
    key: PartKey
    revision: int
    payload: Digest
    reason: str = Field(min_length=1, max_length=MAX_REASON)
    replaces: int
    """Ledger index of the contribution that leaves the sum."""


class DescentMarked(EntryBody):
    """The operator retracted answers to rounds: what came of them is marked, and stays as it is.

    A mean of networks is what later rounds began with, so nothing is taken out of it afterwards.
    """

    kind: ClassVar[str] = "descent.marked"
    device: DeviceId
    rounds: tuple[RoundNumber, ...]
    """Rounds whose mean has an answer of the device in it, as far as they were retracted."""
    first_index: int
    """Of the entry of the first of these means: what was made of it, or follows it, descends."""
    last_version: int | None
    """The last model before, which the operator may push; None where there is none."""
    versions: tuple[int, ...]
    """Models that descend, so far."""
    rounds_again: int
    """How many rounds would have to be run again, from before the first of them."""
    reason: str = Field(min_length=1, max_length=MAX_REASON)
