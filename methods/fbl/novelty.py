"""A device looks at its scenes with the fleet's model, whether it trains in the round or not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor

from fleetledger.learning.networks.conversion import brought_home
from fleetledger.learning.networks.inference import Inference
from fleetledger.learning.networks.pictures import Pictures
from fleetledger.learning.networks.segmentation.torch_layers import DensePass
from fleetledger.learning.networks.torch_layers import Mode
from fleetledger.learning.numerics.pixel_uncertainty import (
    mean_entropy,
    mean_uncertainty,
    most_uncertain,
)
from fleetledger.learning.training.resident import samples_of, tensor_of
from fleetledger.learning.training.settings import TrainingEngineSettings
from fleetledger.learning.training.shared_inference import InferenceRequest
from fleetledger.methods.errors import MethodError
from fleetledger.methods.fbl.assignment import FblAssignment
from fleetledger.methods.fbl.detection import Measured, Present, judge_novelty
from fleetledger.methods.fbl.memory import Memory, read_memory
from fleetledger.methods.fbl.models import sent_model, with_old_model
from fleetledger.methods.fbl.scenes import IGNORED, Current, current_of
from fleetledger.methods.training.exchange import FitInstruction, LocalData
from fleetledger.schemas.rounds import Observation
from fleetledger.schemas.values import ClassName

_TOGETHER = 8
"""Scenes that are measured at once: the scores of all their pixels are in memory."""
_BACKGROUND = "background"


@dataclass(frozen=True, eq=False)
class NoveltyFindings:
    """Findings of a novelty check."""

    memory: Memory
    current: Current
    observation: Observation


def check_novelty(
    assignment: FblAssignment,
    instruction: FitInstruction,
    data: LocalData,
    memory: bytes | None,
    pictures: Pictures,
    engine: TrainingEngineSettings,
) -> NoveltyFindings | None:
    """Return what this device sees in this round, or None without scenes; raise `MethodError`.

    `engine` says where the network is computed. A round is checked once: a device that has is
    given the same again.
    """
    known = read_memory(memory).renamed(instruction.round.aliases)
    current = current_of(instruction, data)
    if not current.rows:
        return None
    before = known.observed_in(instruction.round.number)
    if before is not None:
        return NoveltyFindings(known, current, before)
    seen = (
        None if engine.shared_inference is None else engine.shared_inference.of(instruction.device)
    )
    if seen is None:
        images = tensor_of(samples_of(data.inputs, current.rows))
        scores, infer = _scores(assignment, instruction, engine), _inference(pictures, engine)
        seen = infer.over(scores, images)
    by_ranks = assignment.settings.detection == "sequential"
    level = mean_uncertainty if by_ranks else most_uncertain
    measured = _measured(instruction, current, known.looks.rows, seen, level)
    own = f"{instruction.device}/{instruction.round.number}"
    present = Present(instruction.round.class_names, current.stage, instruction.stage, own)
    transition, looks = judge_novelty(assignment.settings, known.looks, measured, present)
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
    return NoveltyFindings(known, current, observation)


def shared_request(
    assignment: FblAssignment,
    instruction: FitInstruction,
    data: LocalData,
    memory: bytes | None,
    pictures: Pictures,
    engine: TrainingEngineSettings,
) -> InferenceRequest | None:
    """Return what this device asks the incoming model in this round, or None; raise `MethodError`.

    What is made of it comes back to `check_novelty` by `engine`.
    """
    current, known = current_of(instruction, data), read_memory(memory)
    if not current.rows or known.observed_in(instruction.round.number) is not None:
        return None
    scores, infer = _scores(assignment, instruction, engine), _inference(pictures, engine)

    def of_some(images: Tensor) -> npt.NDArray[Any]:
        return np.concatenate(list(infer.over(scores, images)))

    return InferenceRequest(samples_of(data.inputs, current.rows), of_some, _TOGETHER)


def _inference(pictures: Pictures, engine: TrainingEngineSettings) -> Inference:
    """Return how `_TOGETHER` scenes after others are computed."""
    return replace(engine.inference(pictures), batch_size=_TOGETHER)


def _scores(
    assignment: FblAssignment, instruction: FitInstruction, engine: TrainingEngineSettings
) -> Callable[[Tensor], npt.NDArray[Any]]:
    """Return what the incoming model makes of normalised scenes."""
    model = sent_model(assignment, instruction, engine.device)
    network = DensePass(assignment.network)

    def scores(inputs: Tensor) -> npt.NDArray[Any]:
        outputs, _ = network(model.parameters, model.buffers, inputs, Mode())
        logits: npt.NDArray[Any] = brought_home(outputs.logits).numpy()
        return logits

    return scores


def _measured(
    instruction: FitInstruction,
    current: Current,
    known: tuple[ClassName, ...],
    scores: Iterator[npt.NDArray[Any]],
    level: Callable[..., npt.NDArray[np.float64]],
) -> Measured:
    """Return how uncertain the incoming model is of the current scenes' pixels."""
    rows = (_BACKGROUND, *instruction.round.class_names)
    before = (_BACKGROUND, *known) if known else None
    counted, done, nats, levels = current.labels != IGNORED, 0, [], []
    for logits in scores:
        if not np.isfinite(logits).all():
            raise MethodError(
                f"scores: not finite with the weights of round {instruction.round.number}, which "
                "have left the numbers; begin anew with a lower rate"
            )
        pixels = counted[done : done + len(logits)]
        done += len(logits)
        nats.append(mean_entropy(logits, pixels))
        levels.append(level(logits, rows, before, pixels))
    of_pictures = tuple(np.concatenate(levels).tolist())
    return Measured(float(np.concatenate(nats).mean()), of_pictures)
