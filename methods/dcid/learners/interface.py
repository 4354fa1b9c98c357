"""What a learner is asked for: the terms of (1), and what becomes of the head's rows.

    (1)  l_I = l_c + lambda l_a

Terms look at frozen parts and at extras of the samples, by the names below.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from learning.losses.composing import Term, Weighted
from methods.dcid.settings import LearnerSettings

TEACHER = "old_model"
"""The frozen part with the fleet's model at the end of the session before."""
NEW = "new"
"""The frozen mask (C,) of the session's classes."""
ANCHOR = "anchor"
"""The samples' extra (n,): 1 for an anchor, else 0."""


@dataclass(frozen=True)
class Session:
    """Numbers of classes: those that the old model knows, and those that the session brings."""

    old: int
    new: int


class Learner(Protocol):
    """An incremental learner; sites train by its terms, each on its own samples."""

    @property
    def imprints(self) -> bool:
        """Whether rows of new classes begin as the means of their samples."""
        ...

    def held_rows(self, session: Session) -> int:
        """Return how many of the head's first rows stay as they are."""
        ...

    def classification(self) -> Term:
        """Return l_c, over samples and anchors and all classes."""
        ...

    def anchor_loss(self, session: Session) -> tuple[Weighted, ...]:
        """Return lambda l_a, of a session with old classes."""
        ...


def rows_of(settings: LearnerSettings) -> str | None:
    """Return the extra that marks the samples of l_a; None where it looks at all."""
    return ANCHOR if settings.distill_on == "anchors" else None
