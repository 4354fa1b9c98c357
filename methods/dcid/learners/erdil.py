"""ERDIL (Dong et al., AAAI 2021), its simple form: angles between anchors stay.

    l_a = mean Huber difference of the angles' cosines within triples of anchors, to the old model's

Anchors are DCID's; the original chooses them by a graph, and has a ranking term besides.
"""

from __future__ import annotations

from learning.losses.anchor_terms import Relation
from learning.losses.composing import Weighted
from methods.dcid.learners.interface import TEACHER, Session, rows_of
from methods.dcid.learners.traits import strength_of
from methods.dcid.learners.whole_head import WholeHead


class Erdil(WholeHead):
    """The settings' ERDIL."""

    def anchor_loss(self, session: Session) -> tuple[Weighted, ...]:
        """Return lambda l_a."""
        del session
        term = Relation(TEACHER, rows_of(self.settings), self.settings.triples)
        return (Weighted(strength_of(self.settings), term),)
