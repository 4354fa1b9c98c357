"""LUCIR (Hou et al., CVPR 2019): directions of features stay, and old classes keep their lead.

    l_LF = mean( 1 - cos(f, f_old) )                      times 5 sqrt(n_old / n_new)
    l_MR = mean over anchors and their 2 hardest new classes of max(0, 0.5 - cos_true + cos_new)

The head compares cosines; its rows of old classes stay, new ones are imprinted.
"""

from __future__ import annotations

from dataclasses import dataclass

from learning.losses.anchor_terms import MarginRanking
from learning.losses.composing import Term, Weighted
from learning.losses.features import less_forget_factor
from learning.losses.terms import CrossEntropy, FeatureAngle
from methods.dcid.learners.interface import NEW, TEACHER, Session, rows_of
from methods.dcid.learners.traits import strength_of
from methods.dcid.settings import LearnerSettings


@dataclass(frozen=True)
class Lucir:
    """The settings' LUCIR."""

    settings: LearnerSettings

    @property
    def imprints(self) -> bool:
        """Whether rows of new classes begin as the means of their samples."""
        return self.settings.imprinting

    def held_rows(self, session: Session) -> int:
        """Return the number of old classes, where their rows are held."""
        return session.old if self.settings.hold_old_rows else 0

    def classification(self) -> Term:
        """Return l_c."""
        return CrossEntropy()

    def anchor_loss(self, session: Session) -> tuple[Weighted, ...]:
        """Return lambda l_LF and l_MR."""
        settings, factor = self.settings, strength_of(self.settings)
        if settings.adaptive:
            factor = less_forget_factor(factor, session.old, session.new)
        terms = [Weighted(factor, FeatureAngle(TEACHER, rows_of(settings)))]
        if settings.ranking:
            ranked = MarginRanking(NEW, settings.ranking_hardest, settings.ranking_margin)
            terms.append(Weighted(settings.ranking, ranked))
        return tuple(terms)
