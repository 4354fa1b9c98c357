"""Rounds on a device: what is trained, from which images, with which loss, and what is answered.

    begin    new images of the stage's classes, and exemplars; the loss of the settings; chance from
             fleet's seed, device and round
    finish   the weights as integers on the grid of the weights that were sent; the Fisher diagonal
             in the phase that measures it, a corrected head in the one that calibrates

Pure functions of bytes and pictures; an engine of `learning.training` runs in between.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import cos, pi

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from fleetledger.learning.errors import LearningError
from fleetledger.learning.losses.composition import FIXED
from fleetledger.learning.networks.conversion import brought_home, to_arrays
from fleetledger.learning.networks.head import is_of_head
from fleetledger.learning.networks.pictures import Pictures
from fleetledger.learning.numerics.head_correction import fitted_bias
from fleetledger.learning.training.chance import Chance
from fleetledger.learning.training.devices import moved
from fleetledger.learning.training.measures import fisher_diagonal
from fleetledger.learning.training.resident import SampleArray, samples_of, tensor_of
from fleetledger.learning.training.settings import TrainingEngineSettings
from fleetledger.learning.training.work import Batching, Data, Sgd, Trained, Work
from fleetledger.methods.errors import MethodError
from fleetledger.methods.rounds.assignment import (
    CALIBRATE,
    FISHER,
    OLD_MODEL,
    SYNTHETIC,
    RoundsAssignment,
)
from fleetledger.methods.rounds.calibration import rows_of
from fleetledger.methods.rounds.memory import Memory, OwnModel, read_memory
from fleetledger.methods.rounds.messages import (
    BIAS_CORRECTION,
    decode_images,
    frame_of,
    trained_of,
)
from fleetledger.methods.rounds.models import base_of, sent_model
from fleetledger.methods.rounds.terms import (
    REAL,
    frozen_parts,
    is_replayed,
    loss_of,
    plain_loss,
    refit_loss,
)
from fleetledger.methods.training.averaged_device import Answer, AveragedDevice
from fleetledger.methods.training.device_updates import update_of
from fleetledger.methods.training.exchange import ClientUpdate, FitInstruction, FitJob, LocalData
from fleetledger.methods.training.met_samples import met_after, new_rows
from fleetledger.methods.training.network_weights import Arrays

Chooses = Callable[[Sequence[int], int], list[int]]
"""From rows of the data and a number to the places of those that are kept, in their order."""


@dataclass(frozen=True, eq=False)
class _Kept:
    """What `finish` has to know."""

    instruction: FitInstruction
    memory: Memory
    sent: Arrays
    """The weights that training began with."""
    work: Work
    engine: TrainingEngineSettings


class RoundsDevice(AveragedDevice[RoundsAssignment, _Kept]):
    """Trains a whole network, or measures its Fisher diagonal."""

    assignment_type = RoundsAssignment

    def begin(
        self,
        assignment: RoundsAssignment,
        instruction: FitInstruction,
        data: LocalData,
        memory: bytes | None,
        pictures: Pictures | None,
        engine: TrainingEngineSettings | None = None,
    ) -> FitJob[_Kept] | None:
        """Return what is to be trained, or None where this device has nothing for the round.

        `pictures` says how bytes become inputs; the settings add what is done to them by chance. It
        is None where the network is trained on features. Raises `MethodError` for files that do not
        fit together.
        """
        settings, network, steps = assignment.settings, assignment.network, assignment.steps
        engine = engine or TrainingEngineSettings()
        names = instruction.round.class_names
        sent = sent_model(assignment, instruction, engine.device)
        before = read_memory(memory, network).renamed(instruction.round.aliases)
        parameters, buffers = sent.parameters, sent.buffers
        base = partial(base_of, assignment, instruction, engine.device)
        infer = engine.inference(pictures)

        def features(inputs: Tensor) -> Tensor:
            return infer(network, {**base(), **parameters}, buffers, inputs).features

        def chosen(rows: Sequence[int], count: int) -> list[int]:
            seen = features(tensor_of(samples_of(data.inputs, rows)))
            return steps.rows_kept(brought_home(seen).numpy(), count)

        remembered = _entered(assignment, instruction, data, before, chosen)
        new = new_rows(instruction, data, remembered.met)
        rows = rows_of(assignment, instruction, data, new, remembered)
        if len(rows) < 2:  # a batch of one cannot be normalised
            return None
        labels = torch.tensor([names.index(data.class_names[row]) for row in rows])
        shaken = pictures and replace(pictures, pad=settings.pad, flip=settings.flip)
        trained = trained_of(assignment, parameters)
        fixed = {**base(), **{name: parameters[name] for name in parameters if name not in trained}}
        work = Work(
            parameters=trained,
            buffers=buffers,
            data=_data(assignment, instruction, samples_of(data.inputs, rows), labels),
            loss=loss_of(assignment, instruction, remembered),
            optimiser=_optimiser(assignment, instruction),
            batching=Batching(min(settings.batch, max(2, len(rows)))),
            chance=_chance(instruction),
            frozen=frozen_parts(assignment, instruction, remembered, trained, fixed, labels),
            pictures=shaken,
            local_epoch=steps.local_epoch if steps.changes("local_epoch") else None,
            by_hand=steps.changes("loss"),
        )
        measures, work = _of_phase(assignment, instruction, work, pictures)
        after = replace(remembered, met=met_after(instruction, data, remembered.met, new))
        samples = dict(Counter(data.class_names[row] for row in rows))
        kept = _Kept(instruction, after, sent.arrays, work, engine)
        return FitJob(None if measures else work, samples, kept)

    def answer(self, assignment: RoundsAssignment, job: FitJob[_Kept], trained: Trained) -> Answer:
        """Return the network that was trained."""
        kept = job.state
        frame = frame_of(assignment, kept.sent, kept.instruction.round.phase)
        seed = kept.instruction.noise_seed
        weights = {**trained.parameters, **trained.buffers}
        return Answer(frame, {name: weights[name] for name in frame.grid.shapes}, seed)

    def update(
        self, assignment: RoundsAssignment, job: FitJob[_Kept], trained: Trained, payload: bytes
    ) -> ClientUpdate:
        """Return the answer to a round."""
        kept = job.state
        memory = kept.memory
        if assignment.settings.keeps_own_models:
            arrays = to_arrays(trained.parameters, trained.buffers)
            memory = replace(memory, latest=OwnModel(arrays, kept.instruction.round.class_names))
        update = update_of(job, payload, memory, trained)
        privacy = assignment.settings.privacy
        if privacy is None or not privacy.own:
            return update
        # What goes beside the noisy numbers says nothing of the images.
        told = {kept.instruction.round.class_names[0]: 1}
        return replace(update, samples=told, steps=1, loss=None, stored_samples=0)

    def measured(self, assignment: RoundsAssignment, job: FitJob[_Kept]) -> ClientUpdate:
        """Return the Fisher diagonal of its images, in units of its cap, or BiC's two numbers."""
        kept, cap = job.state, assignment.settings.ewc_cap
        frame = frame_of(assignment, kept.sent, kept.instruction.round.phase)
        try:
            if kept.instruction.round.phase == CALIBRATE:
                found = {BIAS_CORRECTION: _bias(assignment, kept)}
                return update_of(job, frame.encode(found), kept.memory)
            diagonal = fisher_diagonal(kept.work, replace(kept.engine, autocast=False), cap)
            shares = {name: array / np.float32(cap) for name, array in to_arrays(diagonal).items()}
            return update_of(job, frame.encode(shares), kept.memory)
        except LearningError as error:
            raise MethodError(f"training: {error}") from error


DEVICE = RoundsDevice()


def _data(
    assignment: RoundsAssignment, instruction: FitInstruction, samples: SampleArray, labels: Tensor
) -> Data:
    """Return the samples, with the order's synthetic images behind them, which have no labels."""
    if not is_replayed(instruction):
        return Data.of(samples, labels)
    images = decode_images(assignment, instruction.extras[SYNTHETIC])
    real = (torch.arange(len(labels) + len(images)) < len(labels)).to(torch.float32)
    return Data.of(
        np.concatenate([samples[:], images]),
        torch.cat([labels, labels.new_zeros(len(images))]),
        {REAL: real, SYNTHETIC: 1 - real},
    )


def _bias(assignment: RoundsAssignment, kept: _Kept) -> npt.NDArray[np.float32]:
    """Return alpha and beta by the samples that were held out; 1 and 0 in a first stage."""
    if OLD_MODEL not in kept.instruction.extras:
        return np.array([1.0, 0.0], np.float32)
    work, infer = moved(kept.work, kept.engine.device), kept.engine.inference(kept.work.pictures)
    parameters = {**work.frozen.get(FIXED, {}), **work.parameters}
    seen = infer(assignment.network, parameters, work.buffers, work.data.inputs)
    old = sum(stage < kept.instruction.stage for stage in kept.instruction.stages_of_rows())
    scores, targets = brought_home(seen.logits), brought_home(work.data.targets)
    return np.array(fitted_bias(scores.numpy(), targets.numpy(), old), np.float32)


def _of_phase(
    assignment: RoundsAssignment, instruction: FitInstruction, work: Work, pictures: Pictures | None
) -> tuple[bool, Work]:
    """Return whether a phase only measures, and the work of training as the phase has it."""
    phase = instruction.round.phase
    if phase == CALIBRATE and assignment.settings.calibration == "refit":
        return False, _refitting(assignment, work, pictures)
    if phase in (CALIBRATE, FISHER):
        return True, replace(work, loss=plain_loss(assignment), pictures=pictures)
    return False, work


def _refitting(assignment: RoundsAssignment, work: Work, pictures: Pictures | None) -> Work:
    """Return the work that trains the head alone, of what is balanced."""
    settings = assignment.settings
    head = {name: value for name, value in work.parameters.items() if is_of_head(name)}
    body = {name: value for name, value in work.parameters.items() if name not in head}
    return replace(
        work,
        parameters=head,
        frozen={FIXED: {**work.frozen.get(FIXED, {}), **body}},
        loss=refit_loss(assignment),
        optimiser=Sgd(
            (settings.refit_rate,) * settings.refit_epochs, settings.momentum, settings.weight_decay
        ),
        pictures=pictures,
        local_epoch=None,
        by_hand=False,
    )


def _entered(
    assignment: RoundsAssignment,
    instruction: FitInstruction,
    data: LocalData,
    memory: Memory,
    chosen: Chooses,
) -> Memory:
    """Return the memory as it is in the order's stage.

    With the first order of a stage, exemplars of the stage before are chosen by the features of the
    weights that were sent (the incoming model), and the device's last model becomes its past.
    """
    mine = {data.class_names[row] for row in new_rows(instruction, data, memory.met)}
    if memory.stage == instruction.stage:
        return replace(memory, task=tuple(sorted({*memory.task, *mine})))
    if assignment.settings.keeps_exemplars and memory.task:
        memory = _with_exemplars(assignment, instruction, data, memory, chosen)
    return replace(
        memory, stage=instruction.stage, task=tuple(sorted(mine)), past=memory.latest, latest=None
    )


def _with_exemplars(
    assignment: RoundsAssignment,
    instruction: FitInstruction,
    data: LocalData,
    memory: Memory,
    chosen: Chooses,
) -> Memory:
    """Return the memory with exemplars of its task: m of each, or m = |M| over all.

    Those of a class are chosen among what was trained of it in the stage, and its exemplars so far.
    """
    classes = {*memory.exemplars, *memory.task}
    per_class = assignment.settings.exemplars_of_each(len(classes))
    lists, stages = {}, memory.met.stages(data.class_names, data.digests)
    for name in memory.task:
        before = set(memory.exemplars.get(name, ()))
        of_task = {memory.stage} if name in instruction.stage_class_names else {0, memory.stage}
        rows = [
            row
            for row, label in enumerate(data.class_names)
            if label == name and (stages[row] in of_task or data.digests[row] in before)
        ]
        if rows:
            lists[name] = tuple(data.digests[rows[at]] for at in chosen(rows, per_class))
    return memory.with_exemplars(lists, per_class)


def _chance(instruction: FitInstruction) -> Chance:
    asked = instruction.round
    where = instruction.device, instruction.stage
    return Chance(asked.seed, *where, asked.number, asked.phase)


def _optimiser(assignment: RoundsAssignment, instruction: FitInstruction) -> Sgd:
    """Return the optimiser with the learning rate of each local epoch."""
    settings, round_ = assignment.settings, instruction.round
    done = round_.round_of_stage - 1
    rate = settings.rate
    if settings.schedule == "cosine":
        rate *= 0.5 * (1 + cos(pi * done / round_.rounds_of_stage))
    rate *= settings.decrease_factor ** sum(mark <= done for mark in settings.decrease_rounds)
    return Sgd((rate,) * settings.epochs, settings.momentum, settings.weight_decay)
