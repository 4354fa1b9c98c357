"""The kinds of ledger entry that say which keys the fleet believes, and what they released."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from coordinator.core.entry import EntryBody
from schemas.releases import SignedRelease
from schemas.roots import SignedRoot


class RootPublished(EntryBody):
    """A root document that follows from the one before; the first one begins the chain."""

    kind: ClassVar[str] = "root.published"
    root: SignedRoot
    anew: bool = False
    """The root keys were lost: nothing leads here from the root before, and devices follow only
    once their owners gave them this one."""


class ReleaseSigned(EntryBody):
    """A release key has signed what an entry made desired: devices are told of it from here on.

    Its number is the one after the last such entry, or a higher one that the operator set.
    """

    kind: ClassVar[str] = "release.signed"
    action: int = Field(ge=0)
    """Ledger index of the entry that made the version desired."""
    signed: SignedRelease
