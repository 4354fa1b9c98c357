"""Roots and releases that the device has taken."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass

from fleetledger.device_agent.core.changes.durable import Durable
from fleetledger.device_agent.core.draft import Draft
from fleetledger.device_agent.core.records import (
    Height,
)
from fleetledger.schemas.roots import SignedRoot


@dataclass(frozen=True)
class RootTaken(Durable):
    """A newer root follows from the one that was known; numbers of keys it drops are forgotten."""

    root: SignedRoot
    heights: Mapping[str, Height]

    def __call__(self, draft: Draft) -> None:
        draft.root = self.root
        _replace(draft.heights, self.heights)


@dataclass(frozen=True)
class ReleaseTaken(Durable):
    """A release was believed: from here on no lower number is."""

    heights: Mapping[str, Height]

    def __call__(self, draft: Draft) -> None:
        _replace(draft.heights, self.heights)


@dataclass(frozen=True)
class TrustForgotten(Durable):
    """The owner lets trust begin anew with the root in the agent's folder."""

    def __call__(self, draft: Draft) -> None:
        draft.root = draft.release = None
        draft.heights.clear()


def _replace(heights: MutableMapping[str, Height], by: Mapping[str, Height]) -> None:
    heights.clear()
    heights.update(by)
