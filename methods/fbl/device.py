"""FBL on a device: it looks for new tasks, and trains on scenes of the newest one.

    observe   outside a round's cohort: the look alone
    begin     the look; the current scenes; the loss, with an old model where there is one, and the
              pass that finds thresholds; chance from fleet's seed, device and round
    finish    the weights as integers on the grid of the weights that were sent

A device whose scenes show no class of the fleet's stage only looks. Pure functions of bytes,
pictures and masks; an engine of `learning.training` runs in between.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from fleetledger.learning.networks.pictures import Pictures
from fleetledger.learning.networks.segmentation.torch_layers import DensePass
from fleetledger.learning.training.chance import Chance
from fleetledger.learning.training.resident import samples_of
from fleetledger.learning.training.scenes import SceneCrops
from fleetledger.learning.training.schedules import polynomial_rates
from fleetledger.learning.training.settings import TrainingEngineSettings
from fleetledger.learning.training.shared_inference import InferenceRequest
from fleetledger.learning.training.work import Batching, Data, Sgd, Trained, Work
from fleetledger.methods.fbl.assignment import FblAssignment
from fleetledger.methods.fbl.losses import frozen_parts, loss_of, task_of
from fleetledger.methods.fbl.memory import Memory
from fleetledger.methods.fbl.messages import frame_of
from fleetledger.methods.fbl.models import old_model, sent_model
from fleetledger.methods.fbl.novelty import NoveltyFindings, check_novelty, shared_request
from fleetledger.methods.fbl.settings import FblSettings
from fleetledger.methods.fbl.thresholds import FindsThresholds, has_thresholds
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
from fleetledger.schemas.rounds import Observation


@dataclass(frozen=True, eq=False)
class _Kept:
    """What `finish` has to know."""

    instruction: FitInstruction
    memory: Memory
    observation: Observation
    device: str
    """Where networks are computed."""


class FblDevice(AveragedDevice[FblAssignment, _Kept], ObservingDevice[FblAssignment, _Kept]):
    """Trains on scenes of the newest task, and looks for new ones."""

    assignment_type = FblAssignment

    def observe(
        self,
        assignment: FblAssignment,
        instruction: FitInstruction,
        data: LocalData,
        memory: bytes | None,
        pictures: Pictures | None,
        engine: TrainingEngineSettings | None = None,
    ) -> Observed | None:
        """Return what the fleet's model makes of the current scenes, or None without any.

        Raises `MethodError`.
        """
        pictures = expect_pictures(assignment, data, pictures)
        engine = engine or TrainingEngineSettings()
        found = check_novelty(assignment, instruction, data, memory, pictures, engine)
        return None if found is None else Observed(found.observation, found.memory.write())

    def shared_requests(
        self,
        assignment: FblAssignment,
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
        assignment: FblAssignment,
        instruction: FitInstruction,
        data: LocalData,
        memory: bytes | None,
        pictures: Pictures | None,
        engine: TrainingEngineSettings | None = None,
    ) -> FitJob[_Kept] | None:
        """Return what is to be trained, or None where this device has nothing for the round.

        `pictures` says how bytes become inputs; the settings add how scenes are cut by chance.
        Raises `MethodError` for files that do not fit together.
        """
        pictures = expect_pictures(assignment, data, pictures)
        engine = engine or TrainingEngineSettings()
        found = check_novelty(assignment, instruction, data, memory, pictures, engine)
        if found is None or found.current.stage != instruction.stage:
            return None
        rows = found.current.rows
        if len(rows) < assignment.settings.smallest_batch:
            return None
        work = _work(assignment, instruction, data, found, pictures, engine.device)
        samples = dict(Counter(data.class_names[row] for row in rows))
        return FitJob(
            work, samples, _Kept(instruction, found.memory, found.observation, engine.device)
        )

    def answer(self, assignment: FblAssignment, job: FitJob[_Kept], trained: Trained) -> Answer:
        """Return the network that was trained."""
        kept = job.state
        frame = frame_of(assignment, sent_model(assignment, kept.instruction, kept.device).arrays)
        return Answer(frame, {**trained.parameters, **trained.buffers})

    def update(
        self, assignment: FblAssignment, job: FitJob[_Kept], trained: Trained, payload: bytes
    ) -> ClientUpdate:
        """Return the answer to a round."""
        kept = job.state
        epochs = kept.memory.epochs + assignment.settings.epochs
        answer = update_of(job, payload, replace(kept.memory, epochs=epochs), trained)
        return replace(answer, observation=kept.observation)


DEVICE = FblDevice()


def _work(
    assignment: FblAssignment,
    instruction: FitInstruction,
    data: LocalData,
    found: NoveltyFindings,
    pictures: Pictures,
    device: str,
) -> Work:
    settings, round_, current = assignment.settings, instruction.round, found.current
    sent = sent_model(assignment, instruction, device)
    old = old_model(assignment, instruction, found.memory, device)
    since = found.memory.epochs if settings.share_since == "transition" else 0
    thresholds = FindsThresholds(DensePass(assignment.network), settings, since)
    return Work(
        parameters=sent.parameters,
        buffers=sent.buffers,
        data=Data.of(samples_of(data.inputs, current.rows), torch.from_numpy(current.labels)),
        loss=loss_of(assignment.network, settings, task_of(instruction), taught=old is not None),
        optimiser=_optimiser(settings, instruction),
        batching=Batching(settings.batch, settings.smallest_batch, settings.batch_parts),
        chance=Chance(
            round_.seed, instruction.device, instruction.stage, round_.number, round_.phase
        ),
        frozen=frozen_parts(instruction, current, found.memory.seen, old) if old else {},
        pictures=pictures,
        prepare=thresholds if old and has_thresholds(settings) else None,
        scenes=_crops(settings),
        norms_frozen=settings.frozen_norm == "all",
    )


def _optimiser(settings: FblSettings, instruction: FitInstruction) -> Sgd:
    """Return the steps of a round, at rates that fall over all rounds of the stage."""
    round_, epochs = instruction.round, settings.epochs
    first = len(set(instruction.class_stages)) < 2
    rates = polynomial_rates(
        settings.first_rate if first else settings.rate,
        epochs,
        (round_.round_of_stage - 1) * epochs,
        round_.rounds_of_stage * epochs,
        settings.power,
    )
    return Sgd(rates, settings.momentum, settings.weight_decay, settings.nesterov)


def _crops(settings: FblSettings) -> SceneCrops:
    size = None if settings.crop is None else (settings.crop, settings.crop)
    return SceneCrops(size, settings.least_scale, settings.most_scale, settings.flip)
