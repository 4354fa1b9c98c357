"""The losses of FedHAF from terms of `learning.losses`, and what the terms look at.

| equation | setting | term | looks at |
| --- | --- | --- | --- |
| (4) | cross_entropy, `ce_...` | cross-entropy | `task` or `tasks`, rows `new`, `prior` |
| (5) | distillation, kd_direction, temperature | divergence | `old_model`, `known`, rows `old` |
| (2) | feature_distance, fd_reduction | feature distance | `old_model`, rows `old` |
| (3) | feature_balance | feature balance | `task` |

A term without a row that counts is 0. All devices of a round have the same terms, so that they can
be trained in one stack.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from fleetledger.learning.losses.composition import ComposedLoss, Weighted
from fleetledger.learning.losses.prior import log_prior
from fleetledger.learning.losses.terms import (
    CrossEntropy,
    Divergence,
    FeatureBalance,
    FeatureDistance,
)
from fleetledger.learning.training.work import Data
from fleetledger.methods.fedhaf.assignment import OLD_MODEL, FedHafAssignment
from fleetledger.methods.fedhaf.exemplars import Samples
from fleetledger.methods.fedhaf.settings import FedHafSettings
from fleetledger.methods.training.exchange import FitInstruction

Part = Literal["all", "head", "body"]
"""What one work trains: adapter and head, the head, or the adapter, which is the network's body."""

TASK, TASKS, TEACHER, KNOWN, PRIOR = "task", "tasks", "old_model", "known", "prior"
NEW, OLD = "new", "old"


def parts_of(
    settings: FedHafSettings, instruction: FitInstruction, samples: Samples
) -> tuple[Part, ...]:
    """Return what is trained one after the other; a work in which nothing would learn is left out.

    Without an old model both parts learn together, else the adapter would stay random.
    """
    taught = OLD_MODEL in instruction.extras
    if settings.stages == "one" or not taught:
        parts: tuple[Part, ...] = ("all",)
    else:
        parts = ("head", "body")
    old = samples.old > 0
    by_labels = settings.ce_rows == "all" or not old.all()
    by_scores = settings.distillation > 0 and taught and old.any()
    by_distance = settings.feature_distance > 0 and taught and old.any()
    by_balance = settings.feature_balance > 0 and old.any() and not old.all()
    on_head = by_labels or by_scores
    on_body = settings.adapter == "fam" and bool(by_distance or by_balance)
    learns = {"head": on_head, "body": on_body, "all": on_head or on_body}
    return tuple(part for part in parts if learns[part])


def loss_of(assignment: FedHafAssignment, instruction: FitInstruction, part: Part) -> ComposedLoss:
    """Return the loss by which a part learns; equal for all devices of a round."""
    settings, taught = assignment.settings, OLD_MODEL in instruction.extras
    terms: list[Weighted] = []
    if part in ("all", "head"):
        terms += _head_terms(settings, taught=taught)
    if part == "body" or (part == "all" and settings.stages == "one"):
        terms += _body_terms(settings, taught=taught)
    return ComposedLoss(assignment.network, tuple(terms), part)


def task_mask(instruction: FitInstruction) -> Tensor:
    """Return the mask (C,) of the stage's classes among the head's rows."""
    new = set(instruction.stage_class_names)
    return torch.tensor([name in new for name in instruction.round.class_names])


def device_prior(settings: FedHafSettings, instruction: FitInstruction, data: Data) -> Tensor:
    """Return tau ln n_c (C,) of the head's rows, n_c counting the samples that L_CE looks at."""
    looked_at = data.extras[NEW] if settings.ce_rows == "new" else None
    counts = torch.bincount(data.targets, looked_at, minlength=len(instruction.round.class_names))
    return log_prior(counts, settings.prior_strength, settings.prior_absent)


def _head_terms(settings: FedHafSettings, *, taught: bool) -> list[Weighted]:
    """Return L_head = l_CE L_CE + l_KD L_KD."""
    scope = TASK if settings.ce_scope == "task" else None
    rows = NEW if settings.ce_rows == "new" else None
    prior = PRIOR if settings.ce_prior == "device" else None
    tasks = TASKS if settings.ce_scope == "own-task" else None
    terms = [Weighted(settings.cross_entropy, CrossEntropy(scope, rows, prior, tasks))]
    if settings.distillation and taught:
        keeping = Divergence(TEACHER, settings.temperature, KNOWN, OLD, settings.kd_direction)
        terms.append(Weighted(settings.distillation, keeping))
    return terms


def _body_terms(settings: FedHafSettings, *, taught: bool) -> list[Weighted]:
    """Return L_FAM = l_FD L_FD + l_FB L_FB."""
    terms = []
    if settings.feature_distance and taught:
        keeping = FeatureDistance(TEACHER, OLD, settings.fd_reduction)
        terms.append(Weighted(settings.feature_distance, keeping))
    if settings.feature_balance:
        terms.append(Weighted(settings.feature_balance, FeatureBalance(TASK)))
    return terms
