"""A device looks at its scenes with the fleet's model, whether it trains in the round or not."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from learning.networks.inference import Inference
from learning.networks.pictures import Pictures
from learning.networks.segmentation.torch_layers import DensePass
from learning.networks.torch_layers import Mode
from learning.numerics.pixel_uncertainty import mean_entropy, most_uncertain
from methods.errors import MethodError
from methods.fbl.assignment import FblAssignment
from methods.fbl.detection import Measured, Present, look
from methods.fbl.memory import Memory, read_memory
from methods.fbl.models import sent_model, with_old_model
from methods.fbl.scenes import IGNORED, Current, current_of
from methods.training import FitInstruction, LocalData
from schemas.rounds import Observation
from schemas.values import ClassName

_TOGETHER = 8
"""Scenes that are measured at once: the scores of all their pixels are in memory."""
_BACKGROUND = "background"


@dataclass(frozen=True, eq=False)
class Looked:
    """What a look gave."""

    memory: Memory
    current: Current
    observation: Observation


def looked(
    assignment: FblAssignment,
    instruction: FitInstruction,
    data: LocalData,
    memory: bytes | None,
    pictures: Pictures,
) -> Looked | None:
    """Return what this device sees in this round, or None without scenes; raise `MethodError`.

    A round is looked at once: a device that has is told the same again.
    """
    known = read_memory(memory).renamed(instruction.round.aliases)
    current = current_of(instruction, data)
    if not current.rows:
        return None
    if known.round == instruction.round.number and known.observation is not None:
        return Looked(known, current, known.observation)
    measured = _measured(assignment, instruction, data, current, known.looks.rows, pictures)
    present = Present(instruction.round.class_names, current.stage, instruction.stage)
    transition, looks = look(assignment.settings, known.looks, measured, present)
    observation = Observation(
        entropy=measured.nats, images=len(current.rows), transition=transition
    )
    known = replace(
        known,
        round=instruction.round.number,
        observation=observation,
        looks=looks,
        seen=known.seen | current.names | current.earlier,
        epochs=0 if transition else known.epochs,
    )
    if assignment.settings.needs_old_model:
        known = with_old_model(known, instruction, transition=transition)
    return Looked(known, current, observation)


def _measured(
    assignment: FblAssignment,
    instruction: FitInstruction,
    data: LocalData,
    current: Current,
    known: tuple[ClassName, ...],
    pictures: Pictures,
) -> Measured:
    """Return how uncertain the incoming model is of the current scenes' pixels."""
    model, network = sent_model(assignment, instruction), DensePass(assignment.network)

    def scores(inputs: Tensor) -> npt.NDArray[Any]:
        outputs, _ = network(model.parameters, model.buffers, inputs, Mode())
        logits: npt.NDArray[Any] = outputs.logits.numpy()
        return logits

    rows = (_BACKGROUND, *instruction.round.class_names)
    before = (_BACKGROUND, *known) if known else None
    counted, nats, levels = current.labels != IGNORED, [], []
    inputs = torch.from_numpy(data.inputs[list(current.rows)])
    for number, logits in enumerate(Inference(_TOGETHER, pictures).over(scores, inputs)):
        if not np.isfinite(logits).all():
            raise MethodError(
                f"scores: not finite with the weights of round {instruction.round.number}, which "
                "have left the numbers; begin anew with a lower rate"
            )
        pixels = counted[number * _TOGETHER : (number + 1) * _TOGETHER]
        nats.append(mean_entropy(logits, pixels))
        levels.append(most_uncertain(logits, rows, before, pixels))
    return Measured(float(np.concatenate(nats).mean()), float(np.concatenate(levels).mean()))
