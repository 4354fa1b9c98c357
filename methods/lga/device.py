"""LGA on a device: it looks for new tasks, trains with balanced losses, and encodes prototypes.

    observe   outside a round's cohort: the look alone
    begin     the look; current data and exemplars; the loss, with an old model where there is one;
              chance from fleet's seed, device and round
    finish    the weights as integers on the grid of the weights that were sent; after a transition
              the gradients of the new classes' perturbed prototypes, for the proxy

Pure functions of bytes and pictures; an engine of `learning.training` runs in between.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from fleetledger.learning.errors import LearningError
from fleetledger.learning.networks.pictures import Pictures
from fleetledger.learning.training.chance import Chance
from fleetledger.learning.training.resident import SampleArray, samples_of
from fleetledger.learning.training.settings import TrainingEngineSettings
from fleetledger.learning.training.shared_inference import InferenceRequest
from fleetledger.learning.training.work import Batching, Data, Sgd, Trained, Work
from fleetledger.methods.errors import MethodError
from fleetledger.methods.lga.assignment import LgaAssignment
from fleetledger.methods.lga.gradient_sets import encode_gradients
from fleetledger.methods.lga.holdings import rows_by_class, training_rows
from fleetledger.methods.lga.memory import Memory
from fleetledger.methods.lga.messages import frame_of
from fleetledger.methods.lga.models import old_model, sent_model
from fleetledger.methods.lga.novelty import NoveltyFindings, check_novelty, shared_request
from fleetledger.methods.lga.prototypes import TrainedModel, gradient_sets, perturbed, prototypes_of
from fleetledger.methods.lga.schedule import rates_of
from fleetledger.methods.lga.settings import LgaSettings
from fleetledger.methods.lga.terms import frozen_parts, loss_of
from fleetledger.methods.training.averaged_device import Answer, AveragedDevice
from fleetledger.methods.training.device_updates import update_of
from fleetledger.methods.training.exchange import (
    ClientUpdate,
    FitInstruction,
    FitJob,
    LocalData,
    Observed,
)
from fleetledger.methods.training.sides import ObservingDevice, expect_pictures
from fleetledger.runtime.count_words import count_of
from fleetledger.runtime.errors import SchemaError
from fleetledger.schemas.rounds import Observation
from fleetledger.schemas.values import ClassName


@dataclass(frozen=True, eq=False)
class _Kept:
    """What `finish` has to know."""

    instruction: FitInstruction
    memory: Memory
    observation: Observation
    pictures: Pictures
    due: tuple[ClassName, ...]
    """Classes of which the proxy should have gradients."""
    new: dict[ClassName, SampleArray]
    """Images of these by class; none where the owner keeps gradients here."""
    engine: TrainingEngineSettings


class LgaDevice(AveragedDevice[LgaAssignment, _Kept], ObservingDevice[LgaAssignment, _Kept]):
    """Trains with balanced losses, and looks for new tasks."""

    assignment_type = LgaAssignment

    def observe(
        self,
        assignment: LgaAssignment,
        instruction: FitInstruction,
        data: LocalData,
        memory: bytes | None,
        pictures: Pictures | None,
        engine: TrainingEngineSettings | None = None,
    ) -> Observed | None:
        """Return what the fleet's model makes of the current images, or None without any.

        With a transition the memory has its exemplars, and gradients are due at the next training.
        Raises `MethodError`.
        """
        expect_pictures(assignment, data, pictures)
        engine = engine or TrainingEngineSettings()
        found = check_novelty(assignment, instruction, data, memory, pictures, engine)
        return None if found is None else Observed(found.observation, found.memory.write())

    def shared_requests(
        self,
        assignment: LgaAssignment,
        instruction: FitInstruction,
        data: LocalData,
        memory: bytes | None,
        pictures: Pictures | None,
        engine: TrainingEngineSettings,
    ) -> Sequence[InferenceRequest]:
        """Return what the look asks the incoming model; raise `MethodError`."""
        pictures = expect_pictures(assignment, data, pictures)
        judge_novelty = shared_request(assignment, instruction, data, memory, pictures, engine)
        return () if judge_novelty is None else (judge_novelty,)

    def begin(
        self,
        assignment: LgaAssignment,
        instruction: FitInstruction,
        data: LocalData,
        memory: bytes | None,
        pictures: Pictures | None,
        engine: TrainingEngineSettings | None = None,
    ) -> FitJob[_Kept] | None:
        """Return what is to be trained, or None where this device has nothing for the round.

        `pictures` says how bytes become inputs; the settings add what is done to them by chance.
        Raises `MethodError` for files that do not fit together.
        """
        pictures = expect_pictures(assignment, data, pictures)
        engine = engine or TrainingEngineSettings()
        found = check_novelty(assignment, instruction, data, memory, pictures, engine)
        if found is None:
            return None
        rows = training_rows(data, found.current, found.memory)
        if len(rows) < 2:  # a batch of one cannot be normalised
            return None
        known, due = _trained(data, found), tuple[ClassName, ...]()
        if assignment.has_proxy:
            names, newest = found.current.names, found.current.stage == instruction.stage
            due = known.gradients.classes(names, known.exemplars, newest=newest)
        new = _images_of(assignment, instruction, data, due) if instruction.gives_gradients else {}
        kept = _Kept(instruction, known, found.observation, pictures, due, new, engine)
        work = _work(assignment, kept, _data(instruction, data, rows), found)
        return FitJob(work, dict(Counter(data.class_names[row] for row in rows)), kept)

    def answer(self, assignment: LgaAssignment, job: FitJob[_Kept], trained: Trained) -> Answer:
        """Return the network that was trained."""
        kept = job.state
        frame = frame_of(
            assignment, sent_model(assignment, kept.instruction, kept.engine.device).arrays
        )
        return Answer(frame, {**trained.parameters, **trained.buffers})

    def update(
        self, assignment: LgaAssignment, job: FitJob[_Kept], trained: Trained, payload: bytes
    ) -> ClientUpdate:
        """Return the answer to a round; raise `MethodError` where gradients are not finite."""
        kept = job.state
        try:
            gradients = _gradients(assignment, kept, trained) if kept.new else None
        except (LearningError, SchemaError) as error:
            raise MethodError(f"training: {error}") from error
        left = kept.memory.gradients.after_training(kept.due, kept.new)
        answer = update_of(job, payload, replace(kept.memory, gradients=left), trained)
        return replace(answer, observation=kept.observation, gradients=gradients)


DEVICE = LgaDevice()


def _work(assignment: LgaAssignment, kept: _Kept, samples: Data, found: NoveltyFindings) -> Work:
    settings, instruction, device = assignment.settings, kept.instruction, kept.engine.device
    round_, steps = instruction.round, assignment.steps
    sent = sent_model(assignment, instruction, device)
    old = old_model(assignment, instruction, found.memory, device)
    return Work(
        parameters=sent.parameters,
        buffers=sent.buffers,
        data=samples,
        loss=loss_of(assignment, taught=old is not None),
        optimiser=Sgd(
            rates_of(settings, round_.round_of_stage, round_.rounds_of_stage),
            settings.momentum,
            settings.weight_decay,
        ),
        batching=_batching(settings, len(samples)),
        chance=Chance(
            round_.seed, instruction.device, instruction.stage, round_.number, round_.phase
        ),
        frozen=frozen_parts(settings, instruction, found.current, found.memory, old),
        pictures=replace(
            kept.pictures, pad=settings.pad, flip=settings.flip, brightness=settings.brightness
        ),
        local_epoch=steps.local_epoch if steps.changes("local_epoch") else None,
        by_hand=steps.changes("loss"),
    )


def _trained(data: LocalData, found: NoveltyFindings) -> Memory:
    """Return the memory of a device that has trained its current images."""
    current, memory = found.current, found.memory
    names = [data.class_names[row] for row in current.rows]
    digests = [data.digests[row] for row in current.rows]
    return replace(memory, met=memory.met.with_samples(names, digests, current.stage))


def _data(instruction: FitInstruction, data: LocalData, rows: list[int]) -> Data:
    places = {name: row for row, name in enumerate(instruction.round.class_names)}
    labels = torch.tensor([places[data.class_names[row]] for row in rows])
    return Data.of(samples_of(data.inputs, rows), labels)


def _batching(settings: LgaSettings, samples: int) -> Batching:
    """Return how samples become batches; a device with few has one small batch."""
    smallest = min(settings.smallest_batch, settings.batch)
    return Batching(settings.batch, smallest if samples >= smallest else 2)


def _gradients(assignment: LgaAssignment, kept: _Kept, trained: Trained) -> bytes:
    """Return the gradients of the new classes' perturbed prototypes."""
    round_ = kept.instruction.round
    model = TrainedModel(
        assignment.network,
        trained.parameters,
        trained.buffers,
        kept.pictures,
        round_.class_names,
    )
    prototypes = prototypes_of(model, kept.new)
    secret = f"prototypes/{round_.seed}/{round_.number}/{kept.instruction.device}".encode()
    pictures = perturbed(assignment.settings, model, prototypes, secret)
    return encode_gradients(gradient_sets(assignment.encoding, prototypes, pictures))


def _images_of(
    assignment: LgaAssignment,
    instruction: FitInstruction,
    data: LocalData,
    names: tuple[ClassName, ...],
) -> dict[ClassName, SampleArray]:
    """Return the images of classes; raise `MethodError` for one beyond those reserved."""
    reserved, classes = assignment.settings.reserved, instruction.round.class_names
    late = [name for name in names if classes.index(name) >= reserved]
    if late:
        raise MethodError(
            f"reserved: {count_of(reserved, 'output')} of the encoding network, and {late[0]!r} is "
            f"class {classes.index(late[0]) + 1}; reserve more, and import the network again"
        )
    rows = rows_by_class(data)
    return {name: samples_of(data.inputs, rows[name]) for name in names}
