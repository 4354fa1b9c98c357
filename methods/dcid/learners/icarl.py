"""iCaRL (Rebuffi et al., CVPR 2017): the scores of old classes stay where the old model has them.

softmax   l_a = KL( softmax(z_old / T) || softmax(z[old] / T) ), T = 2, cross-entropy; iCaRL-CNN
sigmoid   the binary cross-entropy of each class, of old ones against the old model's sigmoids;
          iCaRL as it was published
"""

from __future__ import annotations

from learning.losses.balanced_terms import BinaryCrossEntropy, OldClassDistillation
from learning.losses.composing import Term, Weighted
from learning.losses.terms import CrossEntropy, Divergence
from methods.dcid.learners.interface import TEACHER, Session, rows_of
from methods.dcid.learners.traits import strength_of
from methods.dcid.learners.whole_head import WholeHead


class Icarl(WholeHead):
    """The settings' iCaRL."""

    def classification(self) -> Term:
        """Return l_c."""
        return BinaryCrossEntropy() if self.settings.scores == "sigmoid" else CrossEntropy()

    def anchor_loss(self, session: Session) -> tuple[Weighted, ...]:
        """Return lambda l_a."""
        del session
        rows = rows_of(self.settings)
        term: Term = Divergence(TEACHER, self.settings.temperature, rows=rows)
        if self.settings.scores == "sigmoid":
            term = OldClassDistillation(TEACHER, rows)
        return (Weighted(strength_of(self.settings), term),)
