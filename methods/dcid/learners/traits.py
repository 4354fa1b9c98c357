"""What is known of a learner without torch: its head, and its lambda."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from methods.dcid.settings import LearnerName, LearnerSettings

HeadKind = Literal["linear", "cosine"]


@dataclass(frozen=True)
class Traits:
    """A learner's defaults."""

    head: HeadKind
    strength: float
    """lambda of (1), as the paper has it on CIFAR-100."""


TRAITS: Mapping[LearnerName, Traits] = {
    "icarl": Traits("linear", 5.0),
    "lucir": Traits("cosine", 5.0),
    "erdil": Traits("linear", 100.0),
    "tpcil": Traits("cosine", 15.0),
}


def head_of(settings: LearnerSettings) -> HeadKind:
    """Return the kind of head that is set, or the learner's own."""
    return settings.head or TRAITS[settings.learner].head


def strength_of(settings: LearnerSettings) -> float:
    """Return the lambda that is set, or the learner's own."""
    own = TRAITS[settings.learner].strength
    return own if settings.strength is None else settings.strength
