"""Distillation: the new model keeps to what an older one says.

    Fed-LwF      - sum_c softmax(z_old / T)_c ln softmax(z[old] / T)_c, mean over samples
                 (Li and Hoiem, Learning without Forgetting, ECCV 2016); lambda = 3, T = 2
    FLwF-2T      the same twice: the device's own past model on the classes that it knew, and the
                 server's current one on all (Usmanova et al., 2021)
    FedHAF (5)   KL(p_new || p_old) over the old classes; DCID (3), (5): KL(p_old || p_new)

The teacher's scores carry no gradient. It may know fewer classes: it is compared with the first
columns of the student.
"""

from __future__ import annotations

from typing import Literal

from torch import Tensor
from torch.nn import functional

from fleetledger.learning.losses.reduction import Weight, over_classes, weighted_mean, within

Direction = Literal["teacher_first", "student_first"]


def distillation(
    logits: Tensor,
    teacher: Tensor,
    weight: Weight,
    temperature: float = 2.0,
    classes: Tensor | None = None,
) -> Tensor:
    """Return the mean cross-entropy (...) of the student under the teacher's soft targets.

    `teacher` (..., n, C_old); `classes` is a mask of the teacher's classes, bool (C_old,) or
    (A, C_old): an agent whose mask is empty has no loss.
    """
    log_student, log_teacher = _logarithms(logits, teacher, temperature, classes)
    losses = -(_probabilities(log_teacher, classes) * log_student).sum(dim=-1)
    return weighted_mean(losses, weight)


def divergence(
    logits: Tensor,
    teacher: Tensor,
    weight: Weight,
    temperature: float = 1.0,
    classes: Tensor | None = None,
    *,
    direction: Direction = "teacher_first",
) -> Tensor:
    """Return the mean Kullback-Leibler divergence (...), KL(teacher || student) or the reverse."""
    log_student, log_teacher = _logarithms(logits, teacher, temperature, classes)
    if direction == "student_first":
        log_student, log_teacher = log_teacher, log_student
    terms = _probabilities(log_teacher, classes) * (log_teacher - log_student)
    return weighted_mean(terms.sum(dim=-1), weight)


def _logarithms(
    logits: Tensor, teacher: Tensor, temperature: float, classes: Tensor | None
) -> tuple[Tensor, Tensor]:
    student, known = logits[..., : teacher.shape[-1]], teacher.detach()
    if temperature != 1:
        student, known = student / temperature, known / temperature
    return (
        functional.log_softmax(within(student, classes), dim=-1),
        functional.log_softmax(within(known, classes), dim=-1),
    )


def _probabilities(logarithms: Tensor, classes: Tensor | None) -> Tensor:
    probabilities = logarithms.exp()
    if classes is None:
        return probabilities
    return probabilities.masked_fill(~over_classes(classes, probabilities), 0.0)
