"""Distillation on the shared set: DCD (3) at a site and DAD (5) at the coordinator are one work.

    KL( softmax(zbar / tau) || softmax(z / tau) ), over the session's new classes or all

No labels, no weight decay. `distil_norm` says how batch normalisation passes:

eval           by the running statistics, which stay, for S is small: gains and shifts are trained
train          by the batch, which the running statistics follow: they become those of S
train-frozen   by the batch, and the running statistics are put back afterwards

DCD is the phase `distil` at a site. It begins with the site's own model after DID of this round,
[theta_m]_0, and answers with what the ensemble made of it, and with its logits on the shared set
where the coordinator distils these. DAD distils the ensemble of all models into their mean.
Training is floating point, so there it runs on one thread, in the order that seed and round give:
the same bytes on one kind of machine, which the ledger's fingerprint and the remark name.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from fleetledger.learning.errors import LearningError, TrainingError
from fleetledger.learning.losses.anchor_terms import EnsembleDistillation
from fleetledger.learning.losses.composition import ComposedLoss, Weighted
from fleetledger.learning.networks.conversion import to_arrays, to_tensors
from fleetledger.learning.networks.pictures import Pictures
from fleetledger.learning.networks.running_statistics import measured_statistics
from fleetledger.learning.networks.torch_layers import Tensors
from fleetledger.learning.training.chance import Chance
from fleetledger.learning.training.devices import one_torch_thread
from fleetledger.learning.training.loop import train_alone
from fleetledger.learning.training.resident import SampleArray
from fleetledger.learning.training.schedules import constant_rates
from fleetledger.learning.training.settings import TrainingEngineSettings
from fleetledger.learning.training.work import Batching, Data, Sgd, Trained, Work
from fleetledger.methods.dcid.assignment import ENSEMBLE, DcidAssignment
from fleetledger.methods.dcid.images import Images
from fleetledger.methods.dcid.memory import AfterDid
from fleetledger.methods.dcid.messages import decode_ensemble, model_frame
from fleetledger.methods.dcid.shared_set import shared_samples
from fleetledger.methods.dcid.site import Site, SiteState
from fleetledger.methods.errors import MethodError
from fleetledger.methods.training.device_updates import update_of
from fleetledger.methods.training.exchange import ClientUpdate, FitJob, RoundConfig
from fleetledger.methods.training.network_weights import Arrays
from fleetledger.runtime.count_words import count_of
from fleetledger.schemas.values import Digest

_ENSEMBLE, _RANGE = "ensemble", "range"
_COORDINATOR = "coordinator"
_PHASE = "dad"
_FEWEST = 2
"""Images that a variance is measured on."""


@dataclass(frozen=True, eq=False)
class Student:
    """What is distilled into, and the images that it sees."""

    parameters: Tensors
    buffers: Tensors
    images: SampleArray
    pictures: Pictures


def distilling_work(
    assignment: DcidAssignment,
    student: Student,
    ensemble: npt.NDArray[np.float32],
    old: int,
    tau: float,
    chance: Chance,
) -> Work:
    """Return the work of distilling logits `ensemble` (S, C); the first `old` classes are old."""
    settings = assignment.settings
    classes = _RANGE if settings.softmax_range == "new" else None
    term = EnsembleDistillation(_ENSEMBLE, tau, classes, settings.reduction)
    images = len(student.images)
    return Work(
        parameters=student.parameters,
        buffers=student.buffers,
        data=Data.of(
            student.images,
            torch.zeros(images, dtype=torch.int64),
            {_ENSEMBLE: torch.from_numpy(ensemble)},
        ),
        loss=ComposedLoss(
            assignment.network,
            (Weighted(1.0, term),),
            training="none" if settings.distil_norm == "eval" else "all",
        ),
        optimiser=Sgd(
            constant_rates(settings.distil_rate, settings.distil_epochs), settings.momentum
        ),
        batching=Batching(min(settings.distil_batch, max(2, images))),
        chance=chance,
        frozen={_RANGE: new_classes(ensemble.shape[1], old)},
        pictures=student.pictures,
    )


def new_classes(classes: int, old: int) -> Tensor:
    """Return the mask (C,) of the session's classes."""
    return torch.arange(classes) >= old


@dataclass(frozen=True, eq=False)
class _Kept(SiteState):
    """What `finish` has to know."""

    shared: SampleArray


def begin(site: Site) -> FitJob[SiteState] | None:
    """Return what is distilled, or None where this site has no model after DID of this round.

    Raises `MethodError` for files that do not fit together.
    """
    if ENSEMBLE not in site.instruction.extras:
        raise MethodError(
            f"{ENSEMBLE}: the order names no logits to distil from; update the coordinator"
        )
    shared = shared_samples(site)
    logits, began = decode_ensemble(site.instruction.extras[ENSEMBLE], len(shared), len(site.names))
    after = site.memory.after_did
    if after is None or not _is_of_this_round(site, after, began):
        return None
    student = Student(*site.engine.tensors(after.arrays), shared, site.pictures)
    tau = site.assignment.settings.tau1
    work = distilling_work(site.assignment, student, logits, site.old, tau, site.chance)
    return FitJob(work, after.mark.samples, _Kept(site, shared))


def finish(job: FitJob[SiteState], trained: Trained) -> ClientUpdate:
    """Return the weights, with their logits where these are due.

    Raises `MethodError` where training left the numbers. The model after DID is forgotten.
    """
    kept = job.state
    assert isinstance(kept, _Kept)
    site = kept.site
    parameters, buffers = trained.parameters, _buffers_after(site.assignment, job.work, trained)
    frame = model_frame(site.assignment, site.sent, len(kept.shared), len(site.names))
    logits = None
    if frame.logits is not None:
        logits = site.infer(parameters, buffers, kept.shared).logits
    try:
        payload = frame.encode(to_arrays(parameters, buffers), logits)
    except LearningError as error:
        raise MethodError(f"training: {error}") from error
    memory = replace(site.memory, after_did=None)
    return update_of(job, payload, memory, trained)


@dataclass(frozen=True, eq=False)
class Teacher:
    """What the mean is taught: images, the ensemble's logits on them, and the old classes."""

    images: Images
    ensemble: npt.NDArray[np.float32]
    old: int


def distilled(
    assignment: DcidAssignment, config: RoundConfig, mean: Arrays, teacher: Teacher
) -> tuple[Arrays, tuple[str, ...]]:
    """Return the general model that DAD makes of the mean, and remarks for the ledger.

    Raises `MethodError` where training left the numbers, and where nobody said how pictures become
    inputs.
    """
    settings, pictures = assignment.settings, _pictures_of(config)
    chance = Chance(config.seed, _COORDINATOR, round=config.round_of_stage, phase=_PHASE)
    student = Student(*to_tensors(mean), teacher.images, pictures)
    work = distilling_work(
        assignment, student, teacher.ensemble, teacher.old, settings.tau2, chance
    )
    try:
        with one_torch_thread():
            trained = train_alone(work, TrainingEngineSettings())
    except TrainingError as error:
        raise MethodError(f"DAD: {error}") from error
    arrays = to_arrays(trained.parameters, _buffers_after(assignment, work, trained))
    if not all(np.isfinite(array).all() for array in arrays.values()):
        raise MethodError("DAD: weights are not finite; set distil_rate lower")
    losses = trained.losses or (0.0,)
    remark = (
        f"DAD on {count_of(len(teacher.images), 'image')}: loss {losses[0]:.4g} to "
        f"{losses[-1]:.4g} (torch {torch.__version__}, one thread)"
    )
    return arrays, (remark,)


def re_estimated(
    assignment: DcidAssignment, config: RoundConfig, mean: Arrays, images: Images
) -> Arrays:
    """Return the mean with running statistics that are measured on the shared set.

    Batches are of `distil_batch` images, in the order of S; a last one of one image is left out.
    Raises `MethodError` where there are less than two images, or pictures become no inputs.
    """
    if len(images) < _FEWEST:
        raise MethodError(
            f"running_statistics: 're-estimated' on {len(images)} shared image, which has no "
            "variance; set shared_per_class higher"
        )
    size, pictures = assignment.settings.distil_batch, _pictures_of(config)
    starts = range(0, len(images) - 1, size)
    parameters, buffers = to_tensors(mean)
    inputs = (
        pictures.normalise(torch.from_numpy(np.array(images[at : at + size]))) for at in starts
    )
    with one_torch_thread():
        measured = measured_statistics(assignment.network, parameters, buffers, inputs)
    return to_arrays(parameters, measured)


def _pictures_of(config: RoundConfig) -> Pictures:
    if not config.mean:
        raise MethodError(
            "asked: has no mean and deviation of pictures, and the coordinator needs them"
        )
    return Pictures(config.mean, config.deviation)


def _buffers_after(assignment: DcidAssignment, work: Work | None, trained: Trained) -> Tensors:
    """Return the running statistics that distilling leaves."""
    assert work is not None, "it was trained"
    frozen = assignment.settings.distil_norm == "train-frozen"
    return work.buffers if frozen else trained.buffers


def _is_of_this_round(site: Site, after: AfterDid, began: Digest) -> bool:
    mark, round_ = after.mark, site.instruction.round
    return (mark.stage, mark.round_of_stage + 1, mark.began, mark.rows) == (
        site.instruction.stage,
        round_.round_of_stage,
        began,
        len(site.names),
    )
