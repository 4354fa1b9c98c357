"""Jobs of the device: everything that takes long, on one thread, a request at a time.

Each request is answered by inputs for the rules. What goes wrong with data or models is such an
input too; what is left is a bug, and ends the agent (see `worker`).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import Protocol

from fleetledger.device_agent.core import inputs
from fleetledger.device_agent.core.inputs import Input
from fleetledger.device_agent.core.notices import problem
from fleetledger.device_agent.core.records import ActiveModel, Job
from fleetledger.device_agent.core.requests import (
    CheckActiveModel,
    Compare,
    ComputePart,
    Evaluate,
    ForgetCandidate,
    InstallModel,
    Measure,
    ReadManifest,
    ReadThrottling,
    Request,
    Scan,
    ShadowModel,
    Train,
    WorkForCohort,
)
from fleetledger.device_agent.errors import AgentError, DamagedError
from fleetledger.device_agent.home.health.inferences import InferenceMeter, Inferences
from fleetledger.device_agent.home.health.machine import Conditions, Machine
from fleetledger.device_agent.home.home import AgentHome
from fleetledger.device_agent.home.keys import KeyRing
from fleetledger.device_agent.home.memory import release_code, release_memory
from fleetledger.device_agent.home.part_secret import device_secret, part_context
from fleetledger.device_agent.home.store.blobs import BlobFolder, OffersPayloads
from fleetledger.device_agent.models import evaluation
from fleetledger.device_agent.models.comparison.comparer import Comparer
from fleetledger.device_agent.models.features.cache import FeatureCache
from fleetledger.device_agent.models.features.extractor import FrozenExtractor
from fleetledger.device_agent.models.features.reader import FeatureReader, ReadFeatures
from fleetledger.device_agent.models.host import ModelHost, sessions_of
from fleetledger.device_agent.models.inference.installed_model import (
    InstalledModel,
    SessionSettings,
)
from fleetledger.device_agent.models.inference.published import PublishedModels
from fleetledger.device_agent.models.installer import Guards, Installer
from fleetledger.device_agent.models.probation import Probation, comparisons_in
from fleetledger.device_agent.models.self_test_samples import LocalSamples
from fleetledger.device_agent.models.slots import ModelSlots
from fleetledger.device_agent.models.training import (
    answered,
    engine_settings,
    feature_data,
    instruction_of,
    read_asked,
    train,
)
from fleetledger.device_agent.models.trial.trial import Trial
from fleetledger.device_agent.models.uncertainty import measure, measuring_head
from fleetledger.device_agent.models.work import Extracted, extract
from fleetledger.device_agent.program.cohort_jobs import CohortJobs, CohortSurroundings
from fleetledger.device_agent.program.observation import check_novelty, observed
from fleetledger.device_agent.samples.sources.array_samples import ArraySamples
from fleetledger.device_agent.samples.sources.cache import DigestCache
from fleetledger.device_agent.samples.sources.folder import FolderSource, picture_files
from fleetledger.device_agent.samples.sources.scene_folder import SceneFolder
from fleetledger.device_agent.samples.sources.scenes import scene_files
from fleetledger.device_agent.samples.sources.shown_classes import ShownCache
from fleetledger.device_agent.settings import ModelSettings
from fleetledger.learning.errors import LearningError
from fleetledger.learning.numerics.detection import DetectionRules
from fleetledger.methods.registry import descriptor, statistics_device
from fleetledger.methods.statistics.part import PartContext
from fleetledger.methods.statistics.sides import StatisticsAssignment
from fleetledger.runtime.count_words import count_of
from fleetledger.runtime.errors import FleetledgerError
from fleetledger.runtime.onnx_runtime import RUNTIME
from fleetledger.schemas.contributions import Contribution
from fleetledger.schemas.envelope import INLINE_LIMIT
from fleetledger.schemas.keys import VerifyKey
from fleetledger.schemas.reports import Evaluation
from fleetledger.schemas.values import ClassName, Digest
from fleetledger.transport.meter import Counts

log = logging.getLogger("device_agent.device_jobs")
MOST_TOLD = 20
"""Samples that are left out of a measurement, of which each is told."""

WORK = (
    Scan,
    ComputePart,
    Train,
    WorkForCohort,
    ReadManifest,
    InstallModel,
    ShadowModel,
    ForgetCandidate,
    Compare,
    ReadThrottling,
    CheckActiveModel,
    Evaluate,
    Measure,
)
"""Requests that the jobs answer."""


class DeviceJobs(Protocol):
    """Answers the requests in `WORK`."""

    @property
    def provider(self) -> str | None:
        """Return the execution provider in use; None before a model was loaded."""

    @property
    def left(self) -> tuple[str, ...]:
        """Return which execution providers were left for the next one, and why."""

    @property
    def building(self) -> str:
        """Return what is built of a model now; empty where nothing is."""

    @property
    def inferences(self) -> Inferences:
        """Return what the active model was asked so far."""

    def answer(self, request: Request) -> tuple[Input, ...]:
        """Do what is asked and return the inputs that tell about it."""

    def rest(self) -> None:
        """Give back what the last answers have left, where nothing else is asked."""


class LocalDeviceJobs:
    """Answers requests; everything it opens, it opens on the thread that calls `answer`."""

    def __init__(
        self,
        home: AgentHome,
        blobs: BlobFolder,
        slots: ModelSlots,
        traffic: Callable[[], Counts],
        machine: Machine | None = None,
    ) -> None:
        """`machine` is what it runs on; None where there is none that can be asked."""
        model = home.settings.model
        sessions = sessions_of(home)
        self._home = home
        self._littered = False
        """Whether there is memory to give back."""
        self._unloaded = False
        """Whether models were let go since that was done last."""
        self._meter = InferenceMeter()
        self._blobs = blobs
        self._traffic = traffic
        self._kind = home.settings.data.kind
        self._samples = LocalSamples(home.data_folder)
        self._host = ModelHost(blobs, sessions)
        guards = guards_of(model, blobs, slots, sessions, machine)
        self._trial = guards.trial
        self._slots = slots
        self._engines = sessions.engines
        self._installer = Installer(blobs, slots, self._host, self._samples, guards=guards)
        self._published = PublishedModels(home.folder, blobs, slots)
        self._machine = machine
        self._comparer = Comparer(
            home,
            self._host,
            comparisons_in(slots.folder),
            machine,
            guards.trial.weigh if guards.trial is not None else lambda _: None,
            slots.variant_of,
        )

    @property
    def provider(self) -> str | None:
        """Return the execution provider in use; None before a model was loaded."""
        return self._host.provider

    @property
    def left(self) -> tuple[str, ...]:
        """Return which execution providers were left for the next one, and why."""
        return self._host.left

    @property
    def building(self) -> str:
        """Return what is built of a model now; empty where nothing is."""
        return "" if self._trial is None else self._trial.building

    @property
    def inferences(self) -> Inferences:
        """Return what the active model was asked so far, from any thread."""
        return self._meter.now()

    @cached_property
    def _source(self) -> FolderSource | SceneFolder:
        cache = DigestCache(self._home.state_folder / "digests.db")
        if self._kind.masked:
            shown = ShownCache(self._home.state_folder / "masks.db")
            return SceneFolder(self._home.data_folder, cache, shown)
        arrays = None
        if self._kind.many:
            shape = self._home.settings.data.shape
            arrays = ArraySamples(self._home.state_folder / "arrays.db", shape)
        return FolderSource(self._home.data_folder, cache, kind=self._kind, arrays=arrays)

    @cached_property
    def _cohorts(self) -> CohortJobs:
        settings, blobs = self._home.settings, self._blobs
        return CohortJobs(
            CohortSurroundings(
                settings.fleet,
                settings.device,
                secret=partial(device_secret, self._home.state_folder),
                key=self._key,
                read=blobs.read,
                blobs=blobs,
            )
        )

    def _key(self) -> VerifyKey | None:
        """Return the key that the coordinator has confirmed; it may change while the agent runs."""
        settings = self._home.settings
        current = KeyRing.beside(self._home.folder, settings.fleet, settings.device).current
        return None if current is None else current.verify_key

    @cached_property
    def _features(self) -> FeatureCache:
        megabytes = self._home.settings.training.feature_cache_megabytes
        return FeatureCache(self._home.feature_cache, megabytes)

    def answer(self, request: Request) -> tuple[Input, ...]:
        """Do what is asked and return the inputs that tell about it."""
        answers = self._answer(request)
        self._installer.lived()
        # Before anybody is told of a switch.
        switches = isinstance(request, InstallModel | CheckActiveModel)
        self._published.follow(thorough=switches)
        if switches and self._engines is not None:
            self._engines.keep(self._slots.digests())
        self._unloaded |= self._host.unload(self._home.settings.model.unload_seconds)
        return answers

    def rest(self) -> None:
        """Return memory to the system, which takes longer than most answers."""
        if self._littered or self._unloaded:
            release_memory()
        if self._unloaded:
            release_code(RUNTIME)
        self._littered = self._unloaded = False

    def _answer(self, request: Request) -> tuple[Input, ...]:
        match request:
            case Scan():
                return (self._scan(),)
            case ComputePart():
                return self._compute(request)
            case Train():
                return self._train(request)
            case WorkForCohort():
                return self._cohorts.answer(request)
            case Compare():
                return self._comparer.answer(request)
            case ReadThrottling(model):
                return (inputs.ThrottlingRead(model, self._throttled()),)
            case ReadManifest(desired):
                return (self._installer.read(desired),)
            case Evaluate():
                answers = self._evaluate(request)
            case Measure():
                answers = self._measure(request)
            case _:
                answer = self._answer_of_models(request)
                answers = (answer,) if answer is not None else ()
        self._littered = True
        return answers

    def _answer_of_models(self, request: Request) -> Input | None:
        """Do what is asked of models; what puts one in place ends a comparison."""
        match request:
            case InstallModel(desired, check, variant):
                self._comparer.leave()
                answer = self._installer.install(desired, check, variant)
                if isinstance(answer, inputs.ModelInstalled):
                    return replace(answer, throttled=self._throttled())
                return answer
            case ShadowModel(desired, check, variant):
                self._comparer.leave()
                return self._installer.shadow(desired, check, variant)
            case ForgetCandidate():
                self._comparer.leave()
                return self._installer.forget_candidate()
            case CheckActiveModel(active):
                return self._installer.check_active(active)
            case _:
                raise AssertionError(f"{type(request).__name__} is not work")

    def _throttled(self) -> int | None:
        return self._machine.throttled() if self._machine is not None else None

    def _conditions(self) -> Conditions:
        return self._machine.conditions() if self._machine is not None else Conditions()

    def _scan(self) -> Input:
        if not self._kind.suffixes:
            return inputs.Scanned((), (), 0)
        began = time.monotonic()
        try:
            scanned = self._source.scan()
        except AgentError as error:
            return inputs.ScanFailed(str(error))
        self._samples.remember(scanned.images)
        return replace(scanned, seconds=time.monotonic() - began)

    def _compute(self, request: ComputePart) -> tuple[Input, ...]:
        try:
            return self._computed(request)
        except DamagedError as error:
            failed = inputs.PartFailed(request.job, str(error))
            return (inputs.FileDamaged(error.digest), failed)
        except (FleetledgerError, LearningError) as error:
            return (inputs.PartFailed(request.job, str(error)),)
        except MemoryError:
            text = (
                f"memory: no room for {count_of(len(request.images), 'image')} of one part; "
                "ask the operator for a smaller max_samples_per_part"
            )
            return (inputs.PartFailed(request.job, text),)
        finally:
            release_memory()

    def _computed(self, request: ComputePart) -> tuple[Input, ...]:
        assignment = request.assignment
        side = statistics_device(assignment.method)
        assert assignment.frozen is not None  # the rules ask for parts of frozen features only
        frozen = self._host.frozen(assignment.frozen.digest)
        extracted = extract(
            assignment,
            request.images,
            self._home.data_folder,
            frozen,
            self._home.settings.model.batch,
        )
        told = _unanswered(assignment.frozen.digest, extracted.unanswered)
        readable = extracted.used | {digest for digest, _ in extracted.unusable}
        self._source.rescan(
            image.path
            for image in request.images
            if image.digest not in readable and image.digest not in extracted.unanswered
        )
        if not extracted.labels:
            return (*told, inputs.PartEmpty(request.job, extracted.unusable))
        own = side.read_assignment(assignment.settings)
        context = replace(
            part_context(self._home.settings, request.job, self._home.state_folder),
            class_names=assignment.class_names,
        )
        context = extracted.context(hidden_context(context, own, request.job))
        made = side.finish(own, extracted.features, extracted.labels, context)
        return (*told, part_computed(request, extracted, made, self._blobs))

    def _train(self, request: Train) -> tuple[Input, ...]:
        try:
            return self._trained(request)
        except DamagedError as error:
            failed = inputs.TrainingFailed(request.job, str(error))
            return (inputs.FileDamaged(error.digest), failed)
        except (FleetledgerError, LearningError) as error:
            # The same images, weights and seed would end in the same way.
            return (inputs.TrainingFailed(request.job, str(error), hopeless=True),)
        except MemoryError:
            text = (
                f"memory: no room for {count_of(len(request.images), 'image')}; ask for a smaller "
                "batch"
            )
            return (inputs.TrainingFailed(request.job, text),)
        finally:
            release_memory()

    def _trained(self, request: Train) -> tuple[Input, ...]:
        assignment = request.assignment
        instruction = instruction_of(assignment, self._blobs.read, self._home.settings.device)
        memory = self._memory(request.memory)
        if assignment.backbone is not None:
            features = self._read_features(assignment.backbone.digest, request)
            data = feature_data(features, self._home.settings.training.exemplars)
            unusable, trouble, about = features.unusable, features.trouble, "feature cache"
            unanswered = _unanswered(assignment.backbone.digest, features.unanswered)
        else:
            read = read_asked(request, self._home.data_folder)
            data, unusable, trouble, about = read.data, read.unusable, read.trouble, "scene"
            unanswered = ()
        told = (*unanswered, *((inputs.Noticed(problem(about, trouble)),) if trouble else ()))
        if instruction.round.observes:
            engine = partial(engine_settings, self._home.settings.training)
            seen = check_novelty(assignment, instruction, data, memory, engine)
            return (*told, observed(request, seen, unusable, self._blobs))
        done = train(request, instruction, data, memory, self._home.settings.training)
        return (*told, answered(request, done, unusable, self._blobs))

    def _read_features(self, backbone: Digest, request: Train) -> ReadFeatures:
        extractor = FrozenExtractor(
            self._home.data_folder,
            request.assignment.preprocessing,
            self._host.frozen(backbone),
            self._home.settings.model.batch,
        )
        return FeatureReader(backbone, extractor, self._features).read(request.images)

    def _memory(self, digest: Digest | None) -> bytes | None:
        """Return what the method remembers; a device that lost it goes on without."""
        try:
            return self._blobs.read(digest) if digest is not None else None
        except DamagedError as error:
            log.warning("what training remembered is lost: %s", error)
            return None

    def _measure(self, request: Measure) -> tuple[Input, ...]:
        try:
            model = self._active_model(request.active)
            if model is None:
                text = "detection: the model was replaced meanwhile"
                return (inputs.UncertaintyMeasured(None, reason=text),)
            model = self._installer.reference_of(model)
            batch = self._home.settings.model.batch
            files = scene_files if self._kind.masked else picture_files
            found = measure(request, model, self._home.data_folder, batch, files)
        except (FleetledgerError, LearningError) as error:
            return (inputs.UncertaintyMeasured(None, reason=str(error)),)
        images = tuple(image.digest for image in request.images)
        head = measuring_head(model, request.known, request.rules)
        measured = inputs.UncertaintyMeasured(head, images, found.values, found.projections)
        return (*_left_out(found.left_out), measured)

    def _active_model(self, active: ActiveModel) -> InstalledModel | None:
        """Return the model in the active slot, or None if it is not `active` any more."""
        model = self._installer.active()
        if model is None or model.manifest.digest != active.manifest:
            return None
        model.on_answer = self._meter.note
        return model

    def _evaluate(self, request: Evaluate) -> tuple[Input, ...]:
        folder, active = self._home.evaluation_folder, request.active
        before = self._conditions()
        try:
            model = self._active_model(active)
            if folder is None or model is None:
                text = "evaluation: the model was replaced meanwhile"
                return (inputs.Evaluated(None, text),)
            head = measuring_head(model, request.known, request.detection)
            if model.is_raw:
                return (inputs.Evaluated(None, ""),)  # nothing of it is right or wrong here
            if model.of_pixels:
                measured = evaluation.evaluate_scenes(model, folder, head, request.detection)
            else:
                measured = self._evaluated(model, folder, request.detection)
                measured = evaluation.with_lacking(measured, model, folder, request.lacks)
        except (FleetledgerError, LearningError) as error:
            return (inputs.Evaluated(None, str(error)),)
        told = _left_out(measured.left_out)
        if not measured.results:
            text = f"data.evaluation_folder: {folder}: no images of classes that the model knows"
            return (*told, inputs.Evaluated(None, text))
        traffic, met = self._traffic(), self._conditions().since(before)
        evaluated = inputs.Evaluated(
            Evaluation(
                version=active.version,
                manifest=active.manifest,
                results=measured.results,
                provider=model.provider,
                seconds=measured.seconds,
                power_mode=met.power_mode,
                celsius=met.celsius,
                throttled=met.throttled,
                bytes_up=traffic.bytes_up,
                bytes_down=traffic.bytes_down,
                losses=measured.losses,
                variant=model.variant,
            ),
            head=head,
            uncertainties=measured.uncertainties,
            classes=measured.classes,
            projections=measured.projections,
        )
        return (*told, evaluated)

    def _evaluated(
        self, model: InstalledModel, folder: Path, detection: DetectionRules | None
    ) -> evaluation.EvaluationResult:
        """Measure the model as it runs; its detector compares with what the reference says."""
        batch = self._home.settings.model.batch
        reference = self._installer.reference_of(model)
        if detection is None or reference is model:
            return evaluation.evaluate(model, folder, batch, detection)
        measured = evaluation.evaluate(model, folder, batch)
        seeds = evaluation.evaluate(reference, folder, batch, detection)
        return replace(
            measured,
            uncertainties=seeds.uncertainties,
            classes=seeds.classes,
            projections=seeds.projections,
        )


def hidden_context(context: PartContext, assignment: StatisticsAssignment, job: Job) -> PartContext:
    """Return what the method's side is told of a part; behind masks there is one form."""
    return replace(context, form=assignment.masked_form()) if job.masked else context


def guards_of(
    model: ModelSettings,
    blobs: BlobFolder,
    slots: ModelSlots,
    sessions: SessionSettings,
    machine: Machine | None = None,
) -> Guards:
    """Return what the owner has a new model go through."""
    return Guards(
        Trial(blobs, sessions, model, machine=machine, variant_of=slots.variant_of)
        if model.trial
        else None,
        Probation(slots.folder, model.probation_seconds) if model.probation_seconds else None,
    )


def _left_out(texts: tuple[str, ...]) -> tuple[Input, ...]:
    """Tell which samples are left out of a measurement."""
    return tuple(inputs.Noticed(problem("sample", text)) for text in texts[:MOST_TOLD])


def _unanswered(frozen: Digest, images: tuple[Digest, ...]) -> tuple[Input, ...]:
    return (inputs.SamplesUnanswered(frozen, images),) if images else ()


class MadePayload(Protocol):
    """What a method's device side makes of a part."""

    @property
    def payload(self) -> bytes:
        """What travels."""

    @property
    def samples(self) -> dict[ClassName, int]:
        """Images per class, as the payload counts them."""

    @property
    def cells(self) -> tuple[int, ...]:
        """The group of each image, as `MadeContribution` has them."""


def part_computed(
    request: ComputePart, extracted: Extracted, made: MadePayload, blobs: OffersPayloads
) -> inputs.PartComputed:
    """Put a large payload on the disk, so that it is there before anything speaks of it."""
    payload = made.payload
    # What waits to be masked stays here as a file.
    small = len(payload) <= INLINE_LIMIT and not request.job.masked
    offer = None if small else blobs.offer(payload)
    contribution = Contribution(
        key=request.job.key,
        revision=request.job.revision,
        payload_kind=descriptor(request.assignment.method).payload_kinds[0],
        method=request.job.method,
        lineage=request.job.lineage,
        payload=Digest.of(payload) if offer is None else offer.digest,
        payload_bytes=len(payload),
        offer=offer,
        samples=made.samples,
    )
    attached = payload if small else None
    digests = (image.digest for image in extracted.rows)
    cells = dict(zip(digests, made.cells, strict=True)) if made.cells else {}
    return inputs.PartComputed(
        request.job, contribution, extracted.used, extracted.unusable, attached, cells
    )
