"""The base of learners whose head begins by chance and is trained as a whole."""

from __future__ import annotations

from dataclasses import dataclass

from learning.losses.composing import Term
from learning.losses.terms import CrossEntropy
from methods.dcid.learners.interface import Session
from methods.dcid.settings import LearnerSettings


@dataclass(frozen=True)
class WholeHead:
    """Such a learner; its anchor loss is its own."""

    settings: LearnerSettings

    @property
    def imprints(self) -> bool:
        """New rows begin by chance, alike everywhere."""
        return False

    def held_rows(self, session: Session) -> int:
        """Return 0: the whole head learns."""
        del session
        return 0

    def classification(self) -> Term:
        """Return l_c."""
        return CrossEntropy()
