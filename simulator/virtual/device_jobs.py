"""Jobs of a virtual device: real rules, real mathematics, cached features.

A scan lists what the plan has delivered. Features come from the bank instead of from pictures;
what is computed from them is the method's own device side, with the context that a real agent of
this name gives it. Models are verified and tested once for all devices.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from fleetledger.device_agent.core import inputs
from fleetledger.device_agent.core.inputs import Input
from fleetledger.device_agent.core.records import ImageToCount, Job
from fleetledger.device_agent.core.requests import (
    CheckActiveModel,
    Compare,
    ComputePart,
    ForgetCandidate,
    InstallModel,
    Measure,
    ReadLocalClock,
    ReadThrottling,
    Request,
    Scan,
    ShadowModel,
    Train,
    WorkForCohort,
)
from fleetledger.device_agent.core.state import AgentRules
from fleetledger.device_agent.errors import AgentError, DamagedError
from fleetledger.device_agent.home.home import AgentHome
from fleetledger.device_agent.home.store.blobs import BlobFolder
from fleetledger.device_agent.models.slots import ModelSlots
from fleetledger.device_agent.models.training import instruction_of
from fleetledger.device_agent.models.uncertainty import doubts, head_of, projections_of
from fleetledger.device_agent.program.cohort_jobs import CohortJobs
from fleetledger.learning.errors import LearningError
from fleetledger.methods.statistics.part import PartContext
from fleetledger.methods.training.exchange import LocalData
from fleetledger.schemas.models import DesiredModel
from fleetledger.schemas.values import DeviceId, Digest
from fleetledger.simulator.engines.paths import index_of
from fleetledger.simulator.errors import EngineError
from fleetledger.simulator.features.interface import Floats, FrozenFeatures
from fleetledger.simulator.virtual.comparisons import KnownOpinions, SharedComparer
from fleetledger.simulator.virtual.models import SharedModels, SharingInstaller
from fleetledger.simulator.virtual.parts import Delivery, Lister, PartMaker, PartPlace
from fleetledger.simulator.virtual.pictures import SizedPictures
from fleetledger.simulator.virtual.scenes import SizedScenes
from fleetledger.simulator.virtual.seeds import seeded_noise
from fleetledger.simulator.virtual.stopwatch import Stopwatch
from fleetledger.simulator.virtual.training import Trainee, TrainerPool

_FAILS = "simulated: nothing new can be installed on this device"


@dataclass(frozen=True)
class Resources:
    """What the benches of all devices share."""

    lister: Lister
    features: Callable[[Digest], FrozenFeatures]
    """Gives the features of a frozen model."""
    models: SharedModels
    stopwatch: Stopwatch
    pictures: SizedPictures | SizedScenes | None
    """Of the samples, at the size of the network; None of texts, on which no network is trained."""
    trainers: TrainerPool
    minute: Callable[[], int] = lambda: 0
    """Tells the minute of the day, on every device the same."""
    parts: PartMaker = field(default_factory=PartMaker)
    known: KnownOpinions = field(default_factory=KnownOpinions)
    """What models said of the pictures on which devices compare them."""


def named(rules: AgentRules, device: DeviceId) -> AgentRules:
    """Return the rules of all devices, with the name by which one of them breaks ties."""
    if rules.detection is None:
        return rules
    return replace(rules, detection=replace(rules.detection, device=device))


@dataclass(frozen=True)
class Equipment:
    """What lies in a device's home."""

    home: AgentHome
    blobs: BlobFolder
    slots: ModelSlots
    installer: SharingInstaller
    chance: Callable[[Job], PartContext]
    """Tells the method's device side about a part."""
    cohorts: CohortJobs
    """Joins masked cohorts, and masks what is given in them."""


class VirtualDeviceJobs:
    """Answers the requests of one device; `delivered` is what has reached it."""

    __slots__ = (
        "_equipment",
        "_failing",
        "_seen",
        "compute_seconds",
        "deliver",
        "delivered",
        "resources",
    )

    def __init__(
        self, resources: Resources, equipment: Equipment, *, failing: bool = False
    ) -> None:
        """On a `failing` one no candidate of a rollout can be installed."""
        self._equipment = equipment
        self._failing = failing
        self.delivered: Sequence[Delivery] = ()
        self.compute_seconds = 0.0
        """Of this machine, with the device's share of the feature extraction."""
        self.deliver: Callable[[Input], None] = _to_nobody
        """Takes answers that come later than their request."""
        self.resources = resources
        self._seen: set[Digest] = set()
        """Images whose features the device has computed for training."""

    def answer(self, request: Request) -> tuple[Input, ...]:
        """Do what is asked and return the inputs that tell about it."""
        match request:
            case Scan():
                return (self.resources.lister.scanned(self.delivered),)
            case ComputePart():
                return (self._compute(request),)
            case Train():
                return self._train(request)
            case WorkForCohort():
                return self._equipment.cohorts.answer(request)
            case InstallModel(desired):
                return (self._refused(desired) or self._equipment.installer.install(desired),)
            case CheckActiveModel(active):
                failed = self._equipment.installer.check_active(active)
                return (failed,) if failed is not None else ()
            case Measure():
                return (self._measure(request),)
            case _:
                return self._answer_of_rollouts(request)

    def _answer_of_rollouts(self, request: Request) -> tuple[Input, ...]:
        match request:
            case ShadowModel(desired):
                return (self._refused(desired) or self._equipment.installer.shadow(desired),)
            case ForgetCandidate():
                return (self._equipment.installer.forget_candidate(),)
            case Compare():
                return self._compare(request)
            case ReadThrottling(model):
                return (inputs.ThrottlingRead(model, None),)
            case ReadLocalClock():
                return (inputs.LocalClockRead(self.resources.minute()),)
            case _:
                name = type(request).__name__
                raise EngineError(f"{name}: devices in memory cannot do that; use engine mqtt")

    def _compute(self, request: ComputePart) -> Input:
        features = self._features(request.assignment.lineage, request.images)
        began = time.perf_counter()
        equipment = self._equipment
        with self.resources.stopwatch.phase("statistics"):
            place = PartPlace(equipment.chance(request.job), equipment.blobs)
            device = equipment.home.settings.device
            part = self.resources.parts.computed(device, request, features, place)
        self.compute_seconds += time.perf_counter() - began
        return part

    def _train(self, request: Train) -> tuple[Input, ...]:
        """Enter the trainer pool; the agent that runs now is answered, if it still runs then."""
        trainers, deliver = self.resources.trainers, self.deliver
        read = partial(trainers.read, blobs=self._equipment.blobs)
        try:
            device = self._equipment.home.settings.device
            instruction = instruction_of(request.assignment, read, device)
            noise_seed = seeded_noise(instruction.round.seed, device)
            instruction = replace(instruction, noise_seed=noise_seed)
            memory = (
                self._equipment.blobs.read(request.memory) if request.memory is not None else None
            )
        except DamagedError as error:
            failed = inputs.TrainingFailed(request.job, str(error))
            return (inputs.FileDamaged(error.digest), failed)

        def done(answer: Input, seconds: float) -> None:
            self.compute_seconds += seconds
            deliver(answer)

        trainers.enter(
            Trainee(request, instruction, self._data(request), memory, self._equipment.blobs, done)
        )
        return ()

    def _data(self, request: Train) -> LocalData:
        scenes = self.resources.pictures
        if isinstance(scenes, SizedScenes):
            return scenes.local_data(request.images)
        images, backbone = request.images, request.assignment.backbone
        return LocalData(
            self._pictures(images)
            if backbone is None
            else self._cached_features(backbone.digest, images),
            tuple(image.class_name for image in images),
            tuple(image.digest for image in images),
            self._equipment.home.settings.training.exemplars,
        )

    def _pictures(self, images: Sequence[ImageToCount]) -> NDArray[np.uint8]:
        pictures = self.resources.pictures
        assert pictures is not None, "a run on texts begins with a frozen encoder"
        return pictures([index_of(image.path) for image in images])

    def _cached_features(self, backbone: Digest, images: Sequence[ImageToCount]) -> Floats:
        """Return features to train on; a device computes those of an image once."""
        new = [image for image in images if image.digest not in self._seen]
        self._seen.update(image.digest for image in new)
        return self._features(backbone, images, len(new))

    def _features(
        self, frozen: Digest, images: Sequence[ImageToCount], computed: int | None = None
    ) -> Floats:
        """Return h of images, and charge the device for the time of those that were computed."""
        source = self.resources.features(frozen)
        self.compute_seconds += source.seconds_per_image * (
            len(images) if computed is None else computed
        )
        with self.resources.stopwatch.phase("features"):
            return source.train(np.array([index_of(image.path) for image in images], np.int64))

    def _refused(self, desired: DesiredModel) -> Input | None:
        """Return why a candidate cannot be installed here; None where it can, and of all others."""
        if not self._failing or desired.rollout is None:
            return None
        return inputs.ModelRefused(desired.action, rolled_back=False, reason=_FAILS)

    def _compare(self, request: Compare) -> tuple[Input, ...]:
        """Compare two models by the agent's own code, in one go."""
        home, models = self._equipment.home, self.resources.models
        with self.resources.stopwatch.phase("comparison"):
            comparer = SharedComparer(home, models, self.resources.known)
            while isinstance((answers := comparer.answer(request))[-1], inputs.ComparisonGoesOn):
                pass
        return answers

    def _measure(self, request: Measure) -> Input:
        model = self._equipment.installer.active()
        if model is None or model.manifest.digest != request.active.manifest:
            return inputs.UncertaintyMeasured(
                None, reason="detection: the model was replaced meanwhile"
            )
        try:
            scored = model.score(self._features(model.manifest.lineage, request.images))
            head = head_of(model)
            values = doubts(scored, head, request.known, request.rules)
            projections = projections_of(scored, head, request.rules)
        except (AgentError, LearningError) as error:
            return inputs.UncertaintyMeasured(None, reason=str(error))
        images = tuple(image.digest for image in request.images)
        return inputs.UncertaintyMeasured(head, images, tuple(values), projections)


def _to_nobody(answer: Input) -> None:
    raise AssertionError(f"{type(answer).__name__} came while the device was off")
