"""FedHAF on a device: what is trained, on which features, by which losses, and what is answered.

    begin      the first work: stage 1, the head by L_head (4), (5) while the adapter is in use;
               without an old model, adapter and head together
    following  stage 2, the adapter by L_FAM (2), (3) while the head is in use
    finish     adapter and head as integers on the grid of the weights that were sent

Pure functions of bytes and features; an engine of `learning.training` runs in between.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch

from fleetledger.learning.errors import LearningError
from fleetledger.learning.losses.composition import FIXED
from fleetledger.learning.networks.head import is_of_head
from fleetledger.learning.networks.pictures import Pictures
from fleetledger.learning.networks.torch_layers import Tensors
from fleetledger.learning.training.chance import Chance
from fleetledger.learning.training.schedules import constant_rates, cosine_rate
from fleetledger.learning.training.settings import TrainingEngineSettings
from fleetledger.learning.training.work import Batching, Data, Sgd, Trained, Work
from fleetledger.methods.errors import MethodError
from fleetledger.methods.fedhaf.assignment import FedHafAssignment
from fleetledger.methods.fedhaf.exemplars import Samples, remembered, samples_of
from fleetledger.methods.fedhaf.memory import Memory, read_memory
from fleetledger.methods.fedhaf.messages import frame_of
from fleetledger.methods.fedhaf.models import old_model, sent_model
from fleetledger.methods.fedhaf.settings import FedHafSettings
from fleetledger.methods.fedhaf.terms import (
    KNOWN,
    NEW,
    OLD,
    PRIOR,
    TASK,
    TASKS,
    TEACHER,
    Part,
    device_prior,
    loss_of,
    parts_of,
    task_mask,
)
from fleetledger.methods.training.averaged_device import Answer, AveragedDevice
from fleetledger.methods.training.exchange import ClientUpdate, FitInstruction, FitJob, LocalData
from fleetledger.schemas.values import ClassName


@dataclass(frozen=True, eq=False)
class _Local:
    """What a device's works of one round have in common."""

    assignment: FedHafAssignment
    instruction: FitInstruction
    samples: dict[ClassName, int]
    data: Data
    in_use: Memory
    memory: Memory
    device: str
    """Where networks are computed."""


@dataclass(frozen=True, eq=False)
class _State:
    """The network before a work: all of it, and what was done to it so far."""

    parameters: Tensors
    buffers: Tensors
    steps: int = 0
    loss: float | None = None
    """Of the first work: it has the cross-entropy."""


@dataclass(frozen=True, eq=False)
class _Kept:
    """What `finish` has to know."""

    local: _Local
    before: _State
    """Before the work that is trained."""

    def after(self, trained: Trained) -> _State:
        """Return the network after the work."""
        told = trained.losses[-1] if trained.losses else None
        return _State(
            {**self.before.parameters, **trained.parameters},
            trained.buffers,
            self.before.steps + trained.steps,
            told if self.before.loss is None else self.before.loss,
        )


class FedHafDevice(AveragedDevice[FedHafAssignment, _Kept]):
    """Trains head and adapter in turn."""

    assignment_type = FedHafAssignment

    def begin(
        self,
        assignment: FedHafAssignment,
        instruction: FitInstruction,
        data: LocalData,
        memory: bytes | None,
        pictures: Pictures | None,
        engine: TrainingEngineSettings | None = None,
    ) -> FitJob[_Kept] | None:
        """Return what is to be trained, or None where this device has nothing for the round.

        Raises `MethodError` for files that do not fit together, and for anything but features.
        """
        _check(assignment, data)
        settings, known = assignment.settings, read_memory(memory, assignment.features)
        try:
            in_use, remembers = remembered(settings, instruction, data, known)
        except LearningError as error:
            raise MethodError(f"exemplars: {error}") from error
        samples = samples_of(instruction, data, in_use)
        parts = parts_of(settings, instruction, samples)
        if len(samples) < 2 or not parts:  # a batch of one cannot be normalised
            return None
        counts = dict(Counter(samples.class_names))
        data_of, device = _data(instruction, samples), engine.device if engine else "cpu"
        local = _Local(assignment, instruction, counts, data_of, in_use, remembers, device)
        sent = sent_model(assignment, instruction, device)
        return _begun(local, parts, _State(sent.parameters, sent.buffers))

    def answer(self, assignment: FedHafAssignment, job: FitJob[_Kept], trained: Trained) -> Answer:
        """Return adapter and head."""
        local, state = job.state.local, job.state.after(trained)
        frame = frame_of(
            sent_model(assignment, local.instruction, local.device).arrays,
            assignment.settings.upload,
        )
        return Answer(frame, {**state.parameters, **state.buffers})

    def update(
        self, assignment: FedHafAssignment, job: FitJob[_Kept], trained: Trained, payload: bytes
    ) -> ClientUpdate:
        """Return the answer to a round."""
        local, state = job.state.local, job.state.after(trained)
        return ClientUpdate(
            payload=payload,
            samples=dict(job.samples),
            steps=max(1, state.steps),
            loss=state.loss,
            memory=local.memory.write(),
            stored_samples=local.in_use.stored,
        )


DEVICE = FedHafDevice()


def _begun(local: _Local, parts: tuple[Part, ...], state: _State) -> FitJob[_Kept]:
    """Return the work of the first part; the others follow."""
    kept, rest = _Kept(local, state), parts[1:]
    following = partial(_following, kept, rest) if rest else None
    return FitJob(_work(local, parts[0], state), local.samples, kept, following=following)


def _following(kept: _Kept, parts: tuple[Part, ...], trained: Trained) -> FitJob[_Kept]:
    return _begun(kept.local, parts, kept.after(trained))


def _work(local: _Local, part: Part, state: _State) -> Work:
    settings, instruction = local.assignment.settings, local.instruction
    mine = {name: value for name, value in state.parameters.items() if _is_of(part, name)}
    others = {name: value for name, value in state.parameters.items() if name not in mine}
    round_ = instruction.round
    return Work(
        parameters=mine,
        buffers=state.buffers,
        data=local.data,
        loss=loss_of(local.assignment, instruction, part),
        optimiser=Sgd(_rates(local, part), settings.momentum, settings.weight_decay),
        batching=_batching(settings, len(local.data)),
        chance=Chance(
            round_.seed,
            instruction.device,
            instruction.stage,
            round_.number,
            f"{round_.phase}-{part}",
        ),
        frozen={FIXED: others, **_frozen(local)},
    )


def _frozen(local: _Local) -> dict[str, Any]:
    """Return what the terms look at, by name."""
    settings = local.assignment.settings
    frozen: dict[str, Any] = {TASK: task_mask(local.instruction)}
    if settings.ce_scope == "own-task":
        frozen[TASKS] = torch.tensor(local.instruction.stages_of_rows())
    if settings.ce_prior == "device":
        frozen[PRIOR] = device_prior(settings, local.instruction, local.data)
    old = old_model(local.assignment, local.instruction, local.device)
    if old is not None and settings.needs_old_model:
        frozen[TEACHER] = {"parameters": old.parameters, "buffers": old.buffers}
        frozen[KNOWN] = old.known
    return frozen


def _batching(settings: FedHafSettings, samples: int) -> Batching:
    """Return how samples become batches; a device with few has one small batch."""
    smallest = min(settings.smallest_batch, settings.batch)
    return Batching(settings.batch, smallest if samples >= smallest else 2)


def _is_of(part: Part, name: str) -> bool:
    """Whether a tensor is of the part."""
    return part == "all" or is_of_head(name) == (part == "head")


def _rates(local: _Local, part: Part) -> tuple[float, ...]:
    """Return the learning rate of each local epoch of a part."""
    settings, round_ = local.assignment.settings, local.instruction.round
    adapts = part == "body"
    rate = settings.adapter_rate if adapts else settings.head_rate
    if settings.schedule == "cosine":
        rate = cosine_rate(rate, round_.round_of_stage - 1, round_.rounds_of_stage)
    return constant_rates(rate, settings.adapter_epochs if adapts else settings.head_epochs)


def _data(instruction: FitInstruction, samples: Samples) -> Data:
    """Return the samples with their rows of the head, and the marks of new and old."""
    rows = {name: row for row, name in enumerate(instruction.round.class_names)}
    targets = torch.tensor([rows[name] for name in samples.class_names])
    old = torch.from_numpy(samples.old)
    return Data.of(samples.inputs, targets, {NEW: 1 - old, OLD: old})


def _check(assignment: FedHafAssignment, data: LocalData) -> None:
    """Refuse samples that are no features of the width that the fleet trains on."""
    inputs = data.inputs
    if inputs.dtype != np.float32 or inputs.shape[1:] != assignment.input_shape:
        raise MethodError(
            f"samples: {inputs.dtype} {inputs.shape[1:]}, and this fleet trains on float32 "
            f"{assignment.input_shape}, the features of its backbone"
        )
