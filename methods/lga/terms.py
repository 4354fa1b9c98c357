"""The losses of the settings from terms of `learning.losses`, and what the terms look at.

| | `loss = "softmax"` | `loss = "sigmoid"` |
| --- | --- | --- |
| without an old model, or gamma_1 | `BalancedCrossEntropy`, (5) | `BinaryCrossEntropy` |
| w/oCBL | `CrossEntropy`, (1) | `BinaryCrossEntropy` without weights |
| gamma_2, semantic | `SemanticDistillation`, (6) | `BinaryCrossEntropy` with a teacher |
| gamma_2, iCaRL's | `Divergence` on old classes | `OldClassDistillation` |

All devices of a round that have an old model have equal losses, so that they can be trained in one
stack; groups and exponent are their own.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import torch
from torch import Tensor

from fleetledger.learning.losses.balanced_terms import (
    BalancedCrossEntropy,
    BinaryCrossEntropy,
    GradientBalance,
    OldClassDistillation,
    SemanticDistillation,
)
from fleetledger.learning.losses.composition import ComposedLoss, Term, Weighted
from fleetledger.learning.losses.terms import CrossEntropy, Divergence
from fleetledger.methods.lga.assignment import LgaAssignment
from fleetledger.methods.lga.holdings import Current, stages_of
from fleetledger.methods.lga.memory import Memory
from fleetledger.methods.lga.settings import LossSettings
from fleetledger.methods.training.exchange import FitInstruction
from fleetledger.methods.training.instruction_models import Model
from fleetledger.schemas.values import ClassName

GROUPS, EXPONENT = "groups", "exponent"
TEACHER, SLICES = "old_model", "slices"


def loss_of(assignment: LgaAssignment, *, taught: bool) -> ComposedLoss:
    """Return equation (7): of a device without an old model the compensation loss alone."""
    settings = assignment.settings
    terms = [Weighted(settings.cross_entropy if taught else 1.0, _compensation(settings))]
    if taught:
        terms.append(Weighted(settings.distillation, _distillation(settings)))
    return ComposedLoss(assignment.network, tuple(terms), own=assignment.steps.own_loss())


def frozen_parts(
    settings: LossSettings,
    instruction: FitInstruction,
    current: Current,
    memory: Memory,
    old: Model | None,
) -> dict[str, Any]:
    """Return what the terms look at, by name."""
    stages = stages_of(instruction)
    stored = set(memory.exemplars)
    earlier = {name for name in current.names if stages[name] < instruction.stage}
    frozen: dict[str, Any] = {
        GROUPS: groups_of(settings, stages, stored),
        EXPONENT: exponent_of(settings, stages, stored | earlier, current.names),
    }
    if old is not None:
        frozen[TEACHER] = {"parameters": old.parameters, "buffers": old.buffers}
        if settings.slices == "renormalised":
            frozen[SLICES] = _tasks(tuple(stages.values()))
    return frozen


def groups_of(
    settings: LossSettings, stages: dict[ClassName, int], stored: Collection[ClassName]
) -> Tensor:
    """Return the groups of classes, bool (G, C), whose samples are weighed against each other.

    `stages` are those of the head's rows in their order. As released, a device without exemplars
    weighs all samples alike: its groups are empty.
    """
    if settings.groups == "disjoint":
        return _tasks(tuple(stages.values()))
    has = torch.tensor([name in stored for name in stages])
    if settings.groups == "two":
        found = torch.stack([~has, has])
    else:
        tasks = torch.tensor(_numbered(tuple(stages.values())))
        upto = [has & (tasks < task) for task in range(1, int(tasks.max()) + 1)]
        found = torch.stack([~has, *upto])
    return found if stored else torch.zeros_like(found)


def exponent_of(
    settings: LossSettings,
    stages: dict[ClassName, int],
    old: Collection[ClassName],
    current: Collection[ClassName],
) -> Tensor:
    """Return e of equation (4), float32 (): the share of `old` classes among the device's own."""
    if settings.exponent == "one":
        return torch.tensor(1.0)
    if settings.exponent == "tasks":
        past = len(set(stages.values())) - 1
        return torch.tensor(past / (past + 1) if past else 1.0)
    every = {*old, *current}
    return torch.tensor(len(set(old)) / len(every) if every else 0.0)


def _compensation(settings: LossSettings) -> Term:
    balance = _balance(settings) if settings.balanced_cross_entropy else None
    if settings.loss == "sigmoid":
        return BinaryCrossEntropy(balance)
    return CrossEntropy() if balance is None else BalancedCrossEntropy(balance)


def _distillation(settings: LossSettings) -> Term:
    balance = _balance(settings) if settings.balanced_distillation else None
    if settings.distillation_kind == "icarl":
        of_sigmoids = settings.loss == "sigmoid"
        return OldClassDistillation(TEACHER) if of_sigmoids else Divergence(TEACHER)
    if settings.loss == "sigmoid":
        return BinaryCrossEntropy(balance, TEACHER)
    slices = SLICES if settings.slices == "renormalised" else None
    return SemanticDistillation(TEACHER, balance, slices)


def _balance(settings: LossSettings) -> GradientBalance:
    bounds = (settings.bounds[0], settings.bounds[1]) if settings.bounds else None
    return GradientBalance(GROUPS, EXPONENT, settings.loss, bounds)


def _tasks(stages: Sequence[int]) -> Tensor:
    """Return the mask (T, C) of each task's classes."""
    tasks = torch.tensor(_numbered(stages))
    return torch.stack([tasks == task for task in range(int(tasks.max()) + 1)])


def _numbered(stages: Sequence[int]) -> list[int]:
    """Return the number of each class's task, from 0."""
    places = {stage: number for number, stage in enumerate(sorted(set(stages)))}
    return [places[stage] for stage in stages]
