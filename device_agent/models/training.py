"""Training on a device: its data, the files of an order, and the method's device side.

torch is imported with the first order, so that an agent starts without it.
"""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from fleetledger.device_agent.core import inputs
from fleetledger.device_agent.core.records import ImageToCount
from fleetledger.device_agent.core.requests import Train
from fleetledger.device_agent.errors import MissingError
from fleetledger.device_agent.home.store.blobs import BlobFolder, OffersPayloads
from fleetledger.device_agent.models.features.reader import ReadFeatures
from fleetledger.device_agent.samples.images import PictureFile, read_pictures
from fleetledger.device_agent.samples.sources.folder import picture_files
from fleetledger.device_agent.samples.sources.masks import load_mask_classes
from fleetledger.device_agent.samples.sources.scenes import (
    CLASSES,
    RenamedMasks,
    renamed_masks,
    scene_files,
)
from fleetledger.device_agent.settings import AgentTrainingSettings
from fleetledger.learning.numerics.preprocessing import network_input, network_inputs
from fleetledger.methods.registry import descriptor, training_device
from fleetledger.methods.training.exchange import (
    BASE,
    ClientUpdate,
    Exemplars,
    FitInstruction,
    FitJob,
    LocalData,
)
from fleetledger.runtime.pip_command import pip_install
from fleetledger.schemas.arrays import ArrayPreprocessing
from fleetledger.schemas.assignments import Assignment
from fleetledger.schemas.contributions import Contribution
from fleetledger.schemas.envelope import INLINE_LIMIT
from fleetledger.schemas.models import Preprocessing, of_networks, of_pictures
from fleetledger.schemas.rounds import RoundAnswer
from fleetledger.schemas.values import ClassName, DeviceId, Digest

if TYPE_CHECKING:
    from fleetledger.learning.networks.pictures import Pictures
    from fleetledger.learning.training.settings import TrainingEngineSettings
    from fleetledger.learning.training.work import Trained
    from fleetledger.methods.training.sides import AnyTrainingAssignment, AnyTrainingDevice

log = logging.getLogger("device_agent.training")


@dataclass(frozen=True, eq=False)
class ReadImages:
    """What could be read of some images, and what does not decode."""

    data: LocalData
    unusable: tuple[tuple[Digest, str], ...]
    trouble: str = ""
    """What else the owner should know."""


@dataclass(frozen=True, eq=False)
class TrainingSession:
    """An order that is being carried out: the method's device side, and what it wants trained."""

    side: AnyTrainingDevice
    assignment: AnyTrainingAssignment
    job: FitJob[object]

    def after(self, trained: Trained | None) -> TrainingSession | None:
        """Return what is trained next, or None where `trained` is the last."""
        following = self.job.following
        if following is None or trained is None:
            return None
        return replace(self, job=following(trained))

    def answer(self, trained: Trained | None) -> ClientUpdate:
        """Return the update; `trained` is None where the phase only measures."""
        if trained is None:
            return self.side.measured(self.assignment, self.job)
        return self.side.finish(self.assignment, self.job, trained)


@dataclass(frozen=True)
class TrainingDone:
    """An answer, and how long it took to compute; no answer where there was nothing to train."""

    answer: ClientUpdate | None
    seconds: float


def read_asked(request: Train, folder: Path) -> ReadImages:
    """Read the samples of an order: scenes if its method segments, else pictures or arrays.

    Raises `SourceError` if classes.toml, or the folder of masks, is of no use.
    """
    assignment, spec = request.assignment, of_networks(request.assignment.preprocessing)
    if not descriptor(assignment.method).segments:
        return read_images(request.images, picture_files(request.images, folder), spec)
    assert assignment.round is not None
    return read_scenes(request.images, folder, of_pictures(spec), assignment.round.aliases)


def read_scenes(
    images: Sequence[ImageToCount],
    folder: Path,
    spec: Preprocessing,
    aliases: Mapping[ClassName, ClassName],
) -> ReadImages:
    """Read scenes at the network's size, with classes under the names that `aliases` gives them."""
    masks = renamed_masks(load_mask_classes(folder / CLASSES).names, aliases)
    return read_images(images, scene_files(images, folder), spec, masks)


def read_images(
    images: Sequence[ImageToCount],
    files: Sequence[PictureFile],
    spec: Preprocessing | ArrayPreprocessing,
    masks: RenamedMasks | None = None,
) -> ReadImages:
    """Read samples as a network is trained on them; files that are gone or changed are left out.

    Scenes get the values of `masks`. One that shows no class at that size is left out, and told.
    """
    pixels = network_inputs(len(images), spec)
    values = None if masks is None else np.empty((len(images), *pixels.shape[2:]), np.uint8)
    kept: list[tuple[ClassName, Digest]] = []
    unusable: list[tuple[Digest, str]] = []
    empty: list[str] = []
    for outcome in read_pictures(files, spec, network_input):
        image = images[outcome.index]
        if outcome.unusable is not None:
            unusable.append((image.digest, outcome.unusable))
        if outcome.pixels is None:
            continue
        class_name = image.class_name
        if masks is not None and values is not None and outcome.mask is not None:
            values[len(kept)] = masks.value_of[outcome.mask]
            shown = masks.shown(values[len(kept)])
            if not shown:
                empty.append(image.path)
                continue
            class_name = shown[0]
        pixels[len(kept)] = outcome.pixels
        kept.append((class_name, image.digest))
    data = LocalData(
        pixels[: len(kept)],
        tuple(name for name, _ in kept),
        tuple(digest for _, digest in kept),
        masks=None if values is None else values[: len(kept)],
        mask_class_names=() if masks is None else masks.class_names,
    )
    return ReadImages(data, tuple(unusable), _too_small(empty, pixels.shape[-2:]))


def _too_small(empty: list[str], size: tuple[int, ...]) -> str:
    if not empty:
        return ""
    height, width = size
    others = " and others" if len(empty) > 1 else ""
    return (
        f"{min(empty)}{others}: what the mask shows is too small to be seen at {height} x {width} "
        "pixels, or cut off; left out of training"
    )


def feature_data(read: ReadFeatures, exemplars_as: Exemplars) -> LocalData:
    """Return features as what a method trains on; `exemplars_as` is the owner's setting."""
    return LocalData(
        read.features,
        tuple(image.class_name for image in read.images),
        tuple(image.digest for image in read.images),
        exemplars_as,
    )


def instruction_of(
    assignment: Assignment, read: Callable[[Digest], bytes], device: DeviceId
) -> FitInstruction:
    """Return an order with its files; `read` raises `DamagedError` where one is not whole.

    The seed of its noise is drawn for it alone: noise that is used twice can be subtracted.
    """
    assert assignment.round is not None
    asked = assignment.round
    extras = {name: read(offer.digest) for name, offer in asked.extras.items()}
    if assignment.base is not None:
        extras[BASE] = read(assignment.base.digest)
    return FitInstruction(
        stage=assignment.stage,
        stage_class_names=tuple(
            asked.aliases.get(name, name) for name in assignment.stage_class_names
        ),
        round=asked,
        weights=read(asked.weights.digest),
        extras=extras,
        device=device,
        class_stages=asked.class_stages,
        noise_seed=secrets.token_bytes(32),
    )


@dataclass(frozen=True, eq=False)
class Loaded:
    """A method's device side, what it was told, and how pictures become inputs; None of others."""

    side: AnyTrainingDevice
    assignment: AnyTrainingAssignment
    pictures: Pictures | None


def require_torch() -> None:
    """Raise `MissingError` without torch."""
    try:
        import fleetledger.learning.networks.pictures  # noqa: F401, PLC0415 - needs torch
    except ImportError as error:
        raise MissingError(
            "torch: not installed, and this fleet trains networks; "
            f"{pip_install('train')}, or NVIDIA's wheel on a Jetson"
        ) from error


def load_side(assignment: Assignment) -> Loaded:
    """Return what carries out the orders of an assignment; raise `MissingError` without torch."""
    require_torch()
    from fleetledger.learning.networks.pictures import Pictures  # noqa: PLC0415 - needs torch

    side = training_device(assignment.method)
    pictures = None
    if assignment.backbone is None:
        spec = of_networks(assignment.preprocessing)
        if isinstance(spec, Preprocessing):
            pictures = Pictures(spec.mean, spec.deviation)
    return Loaded(side, side.read_assignment(assignment.settings), pictures)


def begin(
    request: Train,
    instruction: FitInstruction,
    data: LocalData,
    memory: bytes | None,
    engine: TrainingEngineSettings,
) -> TrainingSession | None:
    """Return what an order wants trained, or None where there is nothing to train.

    Raises `MissingError` without torch, `MethodError`, `LearningError`.
    """
    to = load_side(request.assignment)
    instruction = replace(instruction, gives_gradients=request.publishes)
    job = to.side.begin(to.assignment, instruction, data, memory, to.pictures, engine)
    return None if job is None else TrainingSession(to.side, to.assignment, job)


def engine_settings(settings: AgentTrainingSettings) -> TrainingEngineSettings:
    """Return how this device computes.

    Raises `MissingError` without torch, `TrainingError` for a GPU that torch does not find.
    """
    require_torch()
    from fleetledger.learning.training.devices import found_device  # noqa: PLC0415 - needs torch
    from fleetledger.learning.training.settings import TrainingEngineSettings  # noqa: PLC0415

    return TrainingEngineSettings(
        device=found_device(settings.device),
        autocast=settings.bfloat16,
        inference_batch=settings.inference_batch,
    )


def train(
    request: Train,
    instruction: FitInstruction,
    data: LocalData,
    memory: bytes | None,
    settings: AgentTrainingSettings,
) -> TrainingDone:
    """Carry an order out; raise `MissingError` without torch, `MethodError`, `LearningError`.

    Raises `MemoryError` where the GPU's memory is too small.
    """
    began = time.perf_counter()
    engine = engine_settings(settings)
    from fleetledger.learning.training.devices import memory_watched  # noqa: PLC0415 - needs torch

    with memory_watched():
        session = begin(request, instruction, data, memory, engine)
        answer = None if session is None else _carried_out(session, instruction, engine)
    return TrainingDone(answer, time.perf_counter() - began)


def _carried_out(
    session: TrainingSession, instruction: FitInstruction, engine: TrainingEngineSettings
) -> ClientUpdate:
    from fleetledger.learning.training.loop import train_alone  # noqa: PLC0415 - needs torch

    trained: Trained | None = None
    works = 0
    following: TrainingSession | None = session
    while following is not None:
        session, works = following, works + 1
        if session.job.work is not None:
            log.debug("round %d: work %d begins", instruction.round.number, works)
            trained = train_alone(session.job.work, engine)
            log.debug("round %d: work %d is done", instruction.round.number, works)
        following = session.after(trained)
    return session.answer(trained)


def answered(
    request: Train, done: TrainingDone, unusable: tuple[tuple[Digest, str], ...], blobs: BlobFolder
) -> inputs.TrainingFinished | inputs.NothingToTrain:
    """Put a large payload and the memory on the disk, before anything speaks of them."""
    answer, job = done.answer, request.job
    if answer is None:
        return inputs.NothingToTrain(job, unusable)
    gradients = None
    if request.publishes and answer.gradients is not None:
        gradients = made_gradients(answer.gradients, blobs)
    payload = answer.payload
    # What waits to be masked stays here as a file.
    small = len(payload) <= INLINE_LIMIT and not job.masked
    offer = None if small else blobs.offer(payload)
    contribution = Contribution(
        key=job.key,
        revision=0,
        payload_kind=descriptor(request.assignment.method).kind_of(job.phase),
        method=job.method,
        lineage=job.lineage,
        payload=Digest.of(payload) if offer is None else offer.digest,
        payload_bytes=len(payload),
        offer=offer,
        samples=answer.samples,
        round=RoundAnswer(
            number=job.key.part,
            phase=job.phase,
            samples=sum(answer.samples.values()),
            steps=answer.steps,
            loss=None if answer.loss is None or not isfinite(answer.loss) else answer.loss,
            seconds=done.seconds,
            stored_samples=answer.stored_samples,
            observation=answer.observation,
        ),
    )
    return inputs.TrainingFinished(
        job=job,
        contribution=contribution,
        memory=blobs.put(answer.memory) if answer.memory is not None else None,
        unusable=unusable,
        attached=payload if small else None,
        gradients=gradients,
    )


def made_gradients(gradients: bytes, blobs: OffersPayloads) -> inputs.MadeGradients:
    """Return gradients for the proxy, a large payload by its file."""
    small = len(gradients) <= INLINE_LIMIT
    offer = None if small else blobs.offer(gradients)
    return inputs.MadeGradients(
        payload=Digest.of(gradients) if offer is None else offer.digest,
        payload_bytes=len(gradients),
        attached=gradients if small else None,
        offer=offer,
    )
