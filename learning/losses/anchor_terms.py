"""Terms on anchors and on a shared set, as values to compose: what DCID's learners are made of.

| learner | anchor loss l_a |
| --- | --- |
| iCaRL-CNN | `Divergence(teacher, 2.0, rows=...)` |
| iCaRL, original | `OldClassDistillation(teacher, rows=...)`, with `BinaryCrossEntropy()` |
| LUCIR | `FeatureAngle(teacher, rows=...)`, times `less_forget_factor`, and `MarginRanking` |
| ERDIL | `Relation` |
| TPCIL | `Topology` |

`rows` names samples' extras (0 or 1) that mark the anchors; None means every sample.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from fleetledger.learning.errors import TrainingError
from fleetledger.learning.losses.composition import Lesson, Step
from fleetledger.learning.losses.ensemble import EnsembleReduction, ensemble_distillation
from fleetledger.learning.losses.ranking import margin_ranking
from fleetledger.learning.losses.relation import drawn_triples, relation
from fleetledger.learning.losses.terms import counted
from fleetledger.learning.losses.topology import topology
from fleetledger.learning.networks.torch_layers import head_cosines


@dataclass(frozen=True)
class MarginRanking:
    """LUCIR's ranking of old samples' true class before the `hardest` new ones; `new` is a mask.

    For networks with a cosine head.
    """

    new: str
    hardest: int = 2
    margin: float = 0.5

    def __call__(self, step: Step) -> Tensor:
        """Return its value (...)."""
        return margin_ranking(
            head_cosines(step.tensors, step.outputs.features),
            step.batch.targets,
            step.batch.weight,
            step.frozen[self.new],
            self.hardest,
            self.margin,
        )


@dataclass(frozen=True)
class Relation:
    """ERDIL's angles within `triples` triples of rows, drawn anew in each step."""

    teacher: str
    rows: str | None = None
    triples: int = 512
    lesson: ClassVar[Lesson] = "features"

    def __call__(self, step: Step) -> Tensor:
        """Return its value (...)."""
        words = step.batch.words
        if words is None:
            raise TrainingError("relation: drawing triples needs a source of chance; set words")
        triples, weight = drawn_triples(words(self.triples), counted(step, self.rows))
        old = step.taught(self.teacher, self.lesson)
        return relation(step.outputs.features, old, triples, weight)


@dataclass(frozen=True)
class Topology:
    """TPCIL's correlation of similarities between rows.

    A batch with less than `fewest` rows has none: of three anchors the correlation is chance, and
    its gradient may be fifty times that of ten, which ruins a model in one step.
    """

    teacher: str
    rows: str | None = None
    fewest: int = 8
    lesson: ClassVar[Lesson] = "features"

    def __call__(self, step: Step) -> Tensor:
        """Return its value (...)."""
        old = step.taught(self.teacher, self.lesson)
        weight = counted(step, self.rows)
        enough = (weight > 0).sum(dim=-1, keepdim=True) >= self.fewest
        return topology(step.outputs.features, old, weight * enough)


@dataclass(frozen=True)
class EnsembleDistillation:
    """DCID's (3) and (5): `ensemble` names samples' extras with the logits (C numbers each)."""

    ensemble: str
    temperature: float = 5.0
    classes: str | None = None
    reduction: EnsembleReduction = "mean_tau2"

    def __call__(self, step: Step) -> Tensor:
        """Return its value (...)."""
        return ensemble_distillation(
            step.outputs.logits,
            step.batch.extras[self.ensemble],
            step.batch.weight,
            self.temperature,
            step.mask(self.classes),
            self.reduction,
        )
