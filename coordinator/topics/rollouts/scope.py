"""What a verdict is about: which phase of which group, and how many devices that is."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Literal

from fleetledger.schemas.rollouts import Mode, Share
from fleetledger.schemas.values import ClassName

Outcome = Literal["pass", "fail", "inconclusive"]
GateKey = tuple[str, ClassName | None]
"""A gate by its name, and the class that it is about, where it is about one."""


@dataclass(frozen=True)
class Scope:
    """A phase of a group."""

    group: int
    """From 1 on."""
    mode: Mode
    members: int
    """Devices of the group and of those before it, reached or not."""
    classes: int
    """How many the former model knows; 0 where there is none."""
    devices: int = 0
    """That the rollout was about when it was planned."""
    judges: Share | None = None
    """The devices whose word that it is better counts, as they had no part in it; None for all."""
    forgiven: frozenset[GateKey] = frozenset()
    """What a person let it go on in spite of: it decides nothing any more."""
    overlooked: frozenset[GateKey] = frozenset()
    """The same of what was inconclusive: where it fails, it counts."""


@lru_cache(1024)
def exact(limit: float) -> Fraction:
    """Return a limit as a person wrote it: 0.02 is one of fifty, and not a little more."""
    return Fraction(str(limit))
