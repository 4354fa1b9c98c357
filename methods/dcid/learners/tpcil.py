"""TPCIL (Tao et al., ECCV 2020), its simple form: which anchors are alike stays.

    l_a = - Pearson correlation of the similarities of pairs of anchors with the old model's

Every pair of a batch's anchors is an edge; the original grows a graph by a Hebbian rule.
"""

from __future__ import annotations

from learning.losses.anchor_terms import Topology
from learning.losses.composing import Weighted
from methods.dcid.learners.interface import TEACHER, Session, rows_of
from methods.dcid.learners.traits import strength_of
from methods.dcid.learners.whole_head import WholeHead


class Tpcil(WholeHead):
    """The settings' TPCIL."""

    def anchor_loss(self, session: Session) -> tuple[Weighted, ...]:
        """Return lambda l_a."""
        del session
        term = Topology(TEACHER, rows_of(self.settings))
        return (Weighted(strength_of(self.settings), term),)
