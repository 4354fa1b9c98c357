"""The loss of the settings, from terms of `learning.losses`, and what the terms look at.

| setting | term | looks at |
| --- | --- | --- |
| cross_entropy, scope, ce_prior | cross-entropy of all, a stage, or a side | `task`, `prior` |
| proximal | FedProx | `received` |
| fedmax | FedMAX | |
| ewc | Fed-EWC, from the second stage on | `old`, `fisher` |
| distillation | Fed-LwF, from the second stage on | `old_model` |
| task_distillation | SS-IL, one term for each earlier stage | `old_model`, `task 1` ... |
| margin | PODNet's classifier, in the place of the cross-entropy | |
| pod, pod_flat | PODNet, from the second stage on | `old_model` |
| past_distillation | FLwF-2T's past client, once there is one | `past_model` |
| server_distillation | FLwF-2T's server | `received_model` |
| synthetic_distillation | TARGET, from the second stage on | `old_model`, `synthetic`, `real` |
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import sqrt
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fleetledger.learning.losses.composition import FIXED, ComposedLoss, Weighted
from fleetledger.learning.losses.pooled_outputs import LocalSimilarity, PooledOutputs
from fleetledger.learning.losses.prior import log_prior
from fleetledger.learning.losses.terms import (
    CrossEntropy,
    Distillation,
    Divergence,
    EwcPenalty,
    FeatureAngle,
    FedMax,
    Proximal,
)
from fleetledger.learning.networks.plan import is_buffer
from fleetledger.methods.rounds.assignment import (
    FISHER,
    OLD_MODEL,
    SYNTHETIC,
    RoundsAssignment,
)
from fleetledger.methods.rounds.fisher import decode_fisher
from fleetledger.methods.rounds.memory import Memory
from fleetledger.methods.training.exchange import FitInstruction
from fleetledger.methods.training.network_weights import Arrays, decode_weights, first_rows
from fleetledger.schemas.rounds import TRAIN
from fleetledger.schemas.values import ClassName

TASK, PRIOR = "task", "prior"
RECEIVED, ANCHOR, IMPORTANCE = "received", "old", "fisher"
REAL = "real"
"""Mark of samples that are no synthetic images."""
OLD, PAST, SERVER = "old_model", "past_model", "received_model"


def loss_of(
    assignment: RoundsAssignment,
    instruction: FitInstruction,
    memory: Memory,
) -> ComposedLoss:
    """Return the loss of a round; equal settings in one stage give equal losses."""
    settings = assignment.settings
    share = _old_share(assignment, instruction)
    replays = is_replayed(instruction)
    classification = _classification(assignment, REAL if replays else None)
    terms = [Weighted((1 - share) * settings.cross_entropy, classification)]
    if settings.proximal:
        terms.append(Weighted(settings.proximal, Proximal(RECEIVED, settings.proximal_reduction)))
    if settings.fedmax:
        even = FedMax(settings.fedmax_direction, settings.fedmax_reduction)
        terms.append(Weighted(settings.fedmax, even))
    if settings.ewc and FISHER in instruction.extras:
        terms.append(Weighted(settings.ewc, EwcPenalty(ANCHOR, IMPORTANCE)))
    of_old = settings.distillation * (share if settings.mixing == "classes" else 1)
    teachers = (
        (of_old, OLD, OLD_MODEL in instruction.extras),
        (settings.past_distillation, PAST, memory.past is not None),
        (settings.server_distillation, SERVER, True),
    )
    for factor, teacher, there in teachers:
        if factor and there:
            terms.append(Weighted(factor, Distillation(teacher, settings.temperature)))
    if settings.task_distillation and OLD_MODEL in instruction.extras:
        for stage in _old_stages(instruction):
            kept = Divergence(OLD, settings.temperature, f"{TASK} {stage}")
            terms.append(Weighted(settings.task_distillation, kept))
    if (settings.pod or settings.pod_flat) and OLD_MODEL in instruction.extras:
        terms += _pooled_terms(assignment, instruction)
    if replays:
        kept = Divergence(OLD, settings.temperature, rows=SYNTHETIC)
        terms.append(Weighted(settings.synthetic_distillation, kept))
    return ComposedLoss(assignment.network, tuple(terms), own=assignment.steps.own_loss())


def is_replayed(instruction: FitInstruction) -> bool:
    """Return whether a round trains on synthetic images beside the device's own."""
    return SYNTHETIC in instruction.extras and instruction.round.phase == TRAIN


def refit_loss(assignment: RoundsAssignment) -> ComposedLoss:
    """Return the loss by which the head alone is trained after a stage."""
    settings = assignment.settings
    term = LocalSimilarity(settings.margin) if settings.margin else CrossEntropy()
    return ComposedLoss(assignment.network, (Weighted(1.0, term),), training="head")


def _pooled_terms(assignment: RoundsAssignment, instruction: FitInstruction) -> list[Weighted]:
    """Return PODNet's two, times the root of all classes per class of the stage."""
    settings, names = assignment.settings, instruction.round.class_names
    root = sqrt(len(names) / len(instruction.stage_class_names))
    layers = settings.pod_layers or getattr(assignment.network.body, "stages", ())
    terms = []
    if settings.pod and layers:
        kept = PooledOutputs(OLD, tuple(layers), settings.pod_form)
        terms.append(Weighted(settings.pod * root, kept))
    if settings.pod_flat:
        scale = 2.0 if settings.pod_form == "paper" else 1.0  # of unit vectors: 2 (1 - cosine)
        terms.append(Weighted(scale * settings.pod_flat * root, FeatureAngle(OLD)))
    return terms


def _classification(
    assignment: RoundsAssignment, rows: str | None
) -> CrossEntropy | LocalSimilarity:
    settings = assignment.settings
    if settings.margin:
        return LocalSimilarity(settings.margin)
    return CrossEntropy(
        TASK if settings.scope == "task" else None,
        rows,
        prior=PRIOR if settings.ce_prior == "device" else None,
        tasks=TASK if settings.scope == "separated" else None,
    )


def _old_share(assignment: RoundsAssignment, instruction: FitInstruction) -> float:
    """Return lambda = n / (n + m), of m classes of the stage and n others; 0 without mixing."""
    if assignment.settings.mixing == "factors" or OLD_MODEL not in instruction.extras:
        return 0.0
    return 1 - len(instruction.stage_class_names) / len(instruction.round.class_names)


def _old_stages(instruction: FitInstruction) -> list[int]:
    """Return the earlier stages that brought classes, ascending."""
    return sorted({stage for stage in instruction.stages_of_rows() if stage < instruction.stage})


def plain_loss(assignment: RoundsAssignment) -> ComposedLoss:
    """Return the cross-entropy of the network in use, by which importance is measured."""
    scope = TASK if assignment.settings.scope == "task" else None
    terms = (Weighted(1.0, CrossEntropy(scope)),)
    return ComposedLoss(assignment.network, terms, training="none")


def frozen_parts(
    assignment: RoundsAssignment,
    instruction: FitInstruction,
    memory: Memory,
    received: Mapping[str, Tensor],
    base: Mapping[str, Tensor],
    targets: Tensor,
) -> dict[str, Any]:
    """Return what the terms look at, by name.

    `base` are the tensors that nobody trains, `targets` the rows of the samples' classes (n,).
    """
    settings, names = assignment.settings, instruction.round.class_names
    aliases = instruction.round.aliases
    frozen: dict[str, Any] = {FIXED: base} if base else {}
    if settings.scope != "seen":
        frozen[TASK] = _mask(names, set(instruction.stage_class_names))
    if settings.ce_prior == "device":
        counts = torch.bincount(targets, minlength=len(names))
        frozen[PRIOR] = log_prior(counts, settings.prior_strength, settings.prior_absent)
    if settings.proximal:
        frozen[RECEIVED] = dict(received)
    if settings.server_distillation:
        arrays, _ = decode_weights(instruction.weights, assignment.network)
        known, _ = first_rows(arrays, instruction.round.weights_class_names, names, aliases)
        frozen[SERVER] = _model(known, base)
    if OLD_MODEL in instruction.extras and settings.needs_old_model:
        arrays, old_names = decode_weights(instruction.extras[OLD_MODEL], assignment.network)
        ordered, known_names = first_rows(arrays, old_names, names, aliases)
        frozen[OLD] = _model(ordered, base)
        if settings.task_distillation:
            frozen |= _tasks(instruction, len(known_names))
        if settings.ewc and FISHER in instruction.extras:
            frozen[ANCHOR] = _model(ordered, {})["parameters"]
            frozen[IMPORTANCE] = _importance(settings.ewc_cap, instruction, received)
    if settings.past_distillation and memory.past is not None:
        past, _ = first_rows(memory.past.arrays, memory.past.class_names, names, aliases)
        frozen[PAST] = _model(past, base)
    return frozen


def _tasks(instruction: FitInstruction, known: int) -> dict[str, Tensor]:
    """Return the masks of each earlier stage's classes among the `known` rows of the old model."""
    stages = torch.tensor(instruction.stages_of_rows()[:known])
    return {f"{TASK} {stage}": stages == stage for stage in _old_stages(instruction)}


def _importance(
    cap: float, instruction: FitInstruction, received: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    """Return the Fisher diagonal, in the units that the penalty knows."""
    shapes = {name: tuple(tensor.shape) for name, tensor in received.items()}
    shares, known = decode_fisher(instruction.extras[FISHER], shapes)
    first, _ = first_rows(shares, known, instruction.round.class_names, instruction.round.aliases)
    return {
        name: torch.from_numpy(np.asarray(array * np.float32(cap))) for name, array in first.items()
    }


def _mask(names: Sequence[ClassName], chosen: set[ClassName]) -> Tensor:
    return torch.tensor([name in chosen for name in names])


def _model(arrays: Arrays, base: Mapping[str, Tensor]) -> dict[str, dict[str, Tensor]]:
    own = {name: torch.from_numpy(np.asarray(array)) for name, array in arrays.items()}
    tensors = {**base, **own}
    return {
        "parameters": {name: tensor for name, tensor in tensors.items() if not is_buffer(name)},
        "buffers": {name: tensor for name, tensor in tensors.items() if is_buffer(name)},
    }
