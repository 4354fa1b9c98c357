"""A device looks at its images with the fleet's model, whether it trains in the round or not.

Detection by the incoming model on current data without exemplars; with a transition, exemplars of
the classes that are current no more, by the same model's features, and the count of tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from torch import Tensor

from fleetledger.learning.networks.conversion import brought_home
from fleetledger.learning.networks.pictures import Pictures
from fleetledger.learning.networks.torch_layers import Outputs
from fleetledger.learning.training.resident import samples_of, tensor_of
from fleetledger.learning.training.settings import TrainingEngineSettings
from fleetledger.learning.training.shared_inference import InferenceRequest
from fleetledger.methods.errors import MethodError
from fleetledger.methods.lga.assignment import LgaAssignment
from fleetledger.methods.lga.detection import judge_novelty
from fleetledger.methods.lga.exemplars import Features, with_exemplars
from fleetledger.methods.lga.holdings import Current, current_of, rows_by_class, stages_of
from fleetledger.methods.lga.memory import Memory, read_memory
from fleetledger.methods.lga.models import sent_model
from fleetledger.methods.training.exchange import FitInstruction, LocalData
from fleetledger.schemas.rounds import Observation
from fleetledger.schemas.values import ClassName, Digest

Infer = Callable[[Sequence[int]], Outputs]


@dataclass(frozen=True, eq=False)
class NoveltyFindings:
    """Findings of a novelty check."""

    memory: Memory
    current: Current
    observation: Observation


def check_novelty(
    assignment: LgaAssignment,
    instruction: FitInstruction,
    data: LocalData,
    memory: bytes | None,
    pictures: Pictures | None,
    engine: TrainingEngineSettings,
) -> NoveltyFindings | None:
    """Return what this device sees in this round, or None without images; raise `MethodError`.

    `engine` says where the network is computed. A round is checked once: a device that has is
    given the same again.
    """
    rows = set(instruction.round.class_names)
    there = {
        (name, digest)
        for name, digest in zip(data.class_names, data.digests, strict=True)
        if name in rows
    }
    known = read_memory(memory).renamed(instruction.round.aliases)
    known = known.kept(lambda name, digest: (name, digest) in there)
    current = current_of(instruction, data, known.met)
    if not current.rows:
        return None
    before = known.observed_in(instruction.round.number)
    if before is not None:
        return NoveltyFindings(known, current, before)
    infer = _inference(assignment, instruction, data, pictures, engine)
    parts = (
        None if engine.shared_inference is None else engine.shared_inference.of(instruction.device)
    )
    if parts is None:
        parts = iter([brought_home(infer(current.rows).logits).numpy()])
    logits = np.concatenate(list(parts))
    if not np.isfinite(logits).all():
        raise MethodError(
            f"scores: not finite with the weights of round {instruction.round.number}, which "
            "have left the numbers; begin anew with a lower rate"
        )
    seen = judge_novelty(
        assignment.settings,
        known.looks,
        logits,
        instruction.round.class_names,
        current.stage,
        f"{instruction.device}/{instruction.round.number}",
    )
    observation = Observation(
        entropy=max(0.0, seen.nats), images=len(current.rows), transition=seen.transition
    )
    known = replace(
        known, round=instruction.round.number, observation=observation, looks=seen.looks
    )
    if seen.transition:
        known = _entered(
            assignment, instruction, data, NoveltyFindings(known, current, observation), infer
        )
    return NoveltyFindings(known, current, observation)


def shared_request(
    assignment: LgaAssignment,
    instruction: FitInstruction,
    data: LocalData,
    memory: bytes | None,
    pictures: Pictures | None,
    engine: TrainingEngineSettings,
) -> InferenceRequest | None:
    """Return what this device asks the incoming model in this round, or None; raise `MethodError`.

    What is made of it comes back to `check_novelty` by `engine`.
    """
    known = read_memory(memory).renamed(instruction.round.aliases)
    current = current_of(instruction, data, known.met)
    if not current.rows or known.observed_in(instruction.round.number) is not None:
        return None
    model = sent_model(assignment, instruction, engine.device)
    inference, network = engine.inference(pictures), assignment.network

    def scores(inputs: Tensor) -> npt.NDArray[np.float32]:
        logits = inference(network, model.parameters, model.buffers, inputs).logits
        found: npt.NDArray[np.float32] = brought_home(logits).numpy()
        return found

    return InferenceRequest(samples_of(data.inputs, current.rows), scores, inference.batch_size)


def _entered(
    assignment: LgaAssignment,
    instruction: FitInstruction,
    data: LocalData,
    seen: NoveltyFindings,
    infer: Infer,
) -> Memory:
    """Return the memory in a task that has begun."""
    memory, current = seen.memory, set(seen.current.rows)
    features: dict[ClassName, Features] = {}
    digests: dict[ClassName, tuple[Digest, ...]] = {}
    if assignment.settings.memory or assignment.settings.memory_per_class:
        met = memory.met.stages(data.class_names, data.digests)
        brought = stages_of(instruction)
        last = max((stage for stage in met if stage != seen.current.stage), default=0)
        for name, held in rows_by_class(data).items():
            kept = set(memory.exemplars.get(name, ()))
            # Of a class that has exemplars, these and what had returned of it in the task before.
            of_last = last if last > brought.get(name, last) else None
            rows = [
                row
                for row in held
                if row not in current
                and (not kept or met[row] == of_last or data.digests[row] in kept)
            ]
            returned = any(data.digests[row] not in kept for row in rows)
            if name in instruction.round.class_names and rows and returned:
                features[name] = brought_home(infer(rows).features).numpy()
                digests[name] = tuple(data.digests[row] for row in rows)
    choose = assignment.steps.rows_kept
    chosen = with_exemplars(assignment.settings, memory, features, digests, choose)
    return replace(chosen, gradients=memory.gradients.after_transition())


def _inference(
    assignment: LgaAssignment,
    instruction: FitInstruction,
    data: LocalData,
    pictures: Pictures | None,
    engine: TrainingEngineSettings,
) -> Infer:
    """Return what the incoming model makes of rows of the data."""
    model = sent_model(assignment, instruction, engine.device)
    inference = engine.inference(pictures)

    def infer(rows: Sequence[int]) -> Outputs:
        chosen = tensor_of(samples_of(data.inputs, rows))
        return inference(assignment.network, model.parameters, model.buffers, chosen)

    return infer
