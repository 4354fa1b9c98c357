"""TPCIL (Tao et al., ECCV 2020), its simple form: which anchors are alike stays.

    l_a = - Pearson correlation of the similarities of pairs of anchors with the old model's

Every pair of a batch's anchors is an edge; the original grows a graph by a Hebbian rule.
"""

from __future__ import annotations

from dataclasses import dataclass

from learning.losses.anchor_terms import Topology
from learning.losses.composing import Term, Weighted
from learning.losses.terms import CrossEntropy
from methods.dcid.learners.interface import TEACHER, Session, rows_of
from methods.dcid.learners.traits import strength_of
from methods.dcid.settings import LearnerSettings


@dataclass(frozen=True)
class Tpcil:
    """The settings' TPCIL."""

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

    def anchor_loss(self, session: Session) -> tuple[Weighted, ...]:
        """Return lambda l_a."""
        del session
        term = Topology(TEACHER, rows_of(self.settings))
        return (Weighted(strength_of(self.settings), term),)
