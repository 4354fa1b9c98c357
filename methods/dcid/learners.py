"""The sites' incremental learners: the terms of (1), and what becomes of the head's rows.

    (1)  l_I = l_c + lambda l_a

| name | anchor loss l_a | head | lambda |
| --- | --- | --- | --- |
| `icarl` | divergence of the old classes' scores from the old model's | linear | 5 |
| `lucir` | angle of features to the old model's; anchors rank before new classes | cosine | 5 |
| `erdil` | angles within triples of anchors, as the old model saw them | linear | 100 |
| `tpcil` | correlation of anchors' similarities with the old model's | cosine | 15 |

Terms look at frozen parts and at extras of the samples, by the names below. Head and lambda are
known without torch (`settings`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fleetledger.learning.losses.anchor_terms import MarginRanking, Relation, Topology
from fleetledger.learning.losses.balanced_terms import BinaryCrossEntropy, OldClassDistillation
from fleetledger.learning.losses.composition import Term, Weighted
from fleetledger.learning.losses.features import less_forget_factor
from fleetledger.learning.losses.terms import CrossEntropy, Divergence, FeatureAngle
from fleetledger.methods.dcid.settings import LearnerName, LearnerSettings

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


@dataclass(frozen=True)
class Learner:
    """An incremental learner; sites train by its terms, each on its own samples.

    This one's head begins by chance and is trained as a whole; the anchor loss is each learner's.
    """

    settings: LearnerSettings

    @property
    def imprints(self) -> bool:
        """Whether rows of new classes begin as the means of their samples; else by chance."""
        return False

    def held_rows(self, session: Session) -> int:
        """Return how many of the head's first rows stay as they are."""
        del session
        return 0

    def classification(self) -> Term:
        """Return l_c, over samples and anchors and all classes."""
        return CrossEntropy()

    def anchor_loss(self, session: Session) -> tuple[Weighted, ...]:
        """Return lambda l_a, of a session with old classes."""
        del session
        return (Weighted(self.settings.anchor_strength, self._anchor_term()),)

    def _anchor_term(self) -> Term:
        raise NotImplementedError

    def _rows(self) -> str | None:
        """Return the extra that marks the samples of l_a; None where it looks at all."""
        return ANCHOR if self.settings.distill_on == "anchors" else None


class Icarl(Learner):
    """iCaRL (Rebuffi et al., CVPR 2017): old classes' scores stay where the old model has them.

    softmax   l_a = KL( softmax(z_old / T) || softmax(z[old] / T) ), T = 2, cross-entropy; iCaRL-CNN
    sigmoid   the binary cross-entropy of each class, of old ones against the old model's sigmoids;
              iCaRL as it was published
    """

    def classification(self) -> Term:
        """Return l_c."""
        return BinaryCrossEntropy() if self.settings.scores == "sigmoid" else CrossEntropy()

    def _anchor_term(self) -> Term:
        if self.settings.scores == "sigmoid":
            return OldClassDistillation(TEACHER, self._rows())
        return Divergence(TEACHER, self.settings.temperature, rows=self._rows())


class Lucir(Learner):
    """LUCIR (Hou et al., CVPR 2019): directions of features stay, and old classes keep their lead.

        l_LF = mean( 1 - cos(f, f_old) )                      times 5 sqrt(n_old / n_new)
        l_MR = mean over anchors and their 2 hardest new classes of max(0, 0.5 - cos_true + cos_new)

    The head compares cosines; its rows of old classes stay, new ones are imprinted.
    """

    @property
    def imprints(self) -> bool:
        """Whether rows of new classes begin as the means of their samples."""
        return self.settings.imprinting

    def held_rows(self, session: Session) -> int:
        """Return the number of old classes, where their rows are held."""
        return session.old if self.settings.hold_old_rows else 0

    def anchor_loss(self, session: Session) -> tuple[Weighted, ...]:
        """Return lambda l_LF and l_MR."""
        settings, factor = self.settings, self.settings.anchor_strength
        if settings.adaptive:
            factor = less_forget_factor(factor, session.old, session.new)
        terms = [Weighted(factor, FeatureAngle(TEACHER, self._rows()))]
        if settings.ranking:
            ranked = MarginRanking(NEW, settings.ranking_hardest, settings.ranking_margin)
            terms.append(Weighted(settings.ranking, ranked))
        return tuple(terms)


class Erdil(Learner):
    """ERDIL (Dong et al., AAAI 2021), its simple form: angles between anchors stay.

        l_a = mean Huber difference of the angles' cosines within triples, to the old model's

    Anchors are DCID's; the original chooses them by a graph, and has a ranking term besides.
    """

    def _anchor_term(self) -> Term:
        return Relation(TEACHER, self._rows(), self.settings.triples)


class Tpcil(Learner):
    """TPCIL (Tao et al., ECCV 2020), its simple form: which anchors are alike stays.

        l_a = - Pearson correlation of the similarities of pairs of anchors with the old model's

    Every pair of a batch's anchors is an edge; the original grows a graph by a Hebbian rule.
    """

    def _anchor_term(self) -> Term:
        return Topology(TEACHER, self._rows())


_LEARNERS: Mapping[LearnerName, type[Learner]] = {
    "icarl": Icarl,
    "lucir": Lucir,
    "erdil": Erdil,
    "tpcil": Tpcil,
}


def learner_of(settings: LearnerSettings) -> Learner:
    """Return the sites' learner."""
    return _LEARNERS[settings.learner](settings)
