"""Phases `train` and `train-alone` at a site: DID, equations (1) and (2).

    l_I = l_c + lambda l_a on new images and anchors, from the general model of the round; beside it
    FedMAX or FedProx, where the basic framework has them. The teacher of l_a stays theta^(t-1).
    Anchors of the session's classes are chosen anew with the model that comes of it.

With DCD the model stays with the site and its logits on the shared set are answered; without, the
model is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from fleetledger.learning.errors import LearningError
from fleetledger.learning.losses.composition import FIXED, ComposedLoss, Weighted
from fleetledger.learning.losses.terms import FedMax, Proximal
from fleetledger.learning.networks.conversion import to_arrays
from fleetledger.learning.networks.head import WEIGHT
from fleetledger.learning.networks.held_rows import joined_rows, split_rows
from fleetledger.learning.networks.imprinting import imprinted
from fleetledger.learning.networks.torch_layers import Tensors
from fleetledger.learning.numerics.nearest_mean import class_directions, unit_sums
from fleetledger.learning.training.resident import SampleArray, samples_of
from fleetledger.learning.training.schedules import stepped_rates
from fleetledger.learning.training.shared_inference import SENT, InferenceRequest
from fleetledger.learning.training.work import Batching, Data, Sgd, Trained, Work
from fleetledger.methods.dcid.distillation import new_classes
from fleetledger.methods.dcid.learners import ANCHOR, NEW, TEACHER, Learner, Session, learner_of
from fleetledger.methods.dcid.logits import LogitFrame
from fleetledger.methods.dcid.memory import (
    AfterDid,
    Mark,
    anchor_rows,
    herded,
    missing_anchors,
    new_rows,
    rows_by_class,
)
from fleetledger.methods.dcid.messages import encode_logits, model_frame
from fleetledger.methods.dcid.model import BEFORE
from fleetledger.methods.dcid.settings import DcidSettings
from fleetledger.methods.dcid.shared_set import shared_samples
from fleetledger.methods.dcid.site import Site, SiteState, State
from fleetledger.methods.errors import MethodError
from fleetledger.methods.training.device_updates import update_of
from fleetledger.methods.training.exchange import ClientUpdate, FitJob
from fleetledger.methods.training.network_weights import Arrays, grown
from fleetledger.runtime.errors import SchemaError
from fleetledger.schemas.values import ClassName

_RECEIVED = "received"


@dataclass(frozen=True, eq=False)
class _Kept(SiteState):
    """What `finish` has to know."""

    held: dict[str, torch.Tensor]
    """Rows of the head that are not trained."""
    shared: SampleArray | None


def begin(site: Site) -> FitJob[SiteState] | None:
    """Return what is trained, or None without images of the session's classes.

    Raises `MethodError` for files that do not fit together, and where no shared set is there.
    """
    settings = site.assignment.settings
    if site.before is not None:
        missing = missing_anchors(site.instruction, site.data, site.memory)
        features = site.features(BEFORE, _rows_of(site, missing))
        chosen = herded(site.data, missing, features, settings.anchors_per_class)
        site = replace(site, memory=site.memory.with_anchors(chosen))
    new = new_rows(site.instruction, site.data)
    rows = [*new, *anchor_rows(site.instruction, site.data, site.memory)]
    if not new or len(rows) < 2:  # a batch of one cannot be normalised
        return None
    shared = None
    if settings.collaborates or settings.aggregates:
        shared = shared_samples(site)
    learner, session = learner_of(settings), Session(site.old, len(site.names) - site.old)
    parameters, buffers = _first_model(site, learner, new)
    trained, held = split_rows(parameters, learner.held_rows(session))
    work = Work(
        parameters=trained,
        buffers=buffers,
        data=_data(site, rows, len(new)),
        loss=ComposedLoss(site.assignment.network, _terms(settings, learner, session)),
        optimiser=Sgd(_rates(site, session), settings.momentum, settings.weight_decay),
        batching=_batching(settings, len(rows)),
        chance=site.chance,
        frozen=_frozen(site, session, trained, held),
        pictures=replace(site.pictures, pad=settings.pad, flip=settings.flip),
    )
    return FitJob(work, site.counted(new), _Kept(site, held, shared))


def finish(job: FitJob[SiteState], trained: Trained) -> ClientUpdate:
    """Return logits on the shared set, or the weights; raise `MethodError` where training diverged.

    The memory has the anchors, and with DCD the model.
    """
    kept = job.state
    assert isinstance(kept, _Kept)
    parameters, buffers = joined_rows(kept.held, trained.parameters), trained.buffers
    arrays = to_arrays(parameters, buffers)
    site = _with_anchors(kept.site, job, parameters, buffers)
    try:
        payload = _payload(kept, arrays, parameters, buffers)
        memory = _remembering(site, job, arrays).memory
        return update_of(job, payload, memory, trained)
    except (LearningError, SchemaError) as error:
        raise MethodError(f"training: {error}") from error


def _payload(kept: _Kept, arrays: Arrays, parameters: Tensors, buffers: Tensors) -> bytes:
    site, shared = kept.site, kept.shared
    settings, classes = site.assignment.settings, len(site.names)
    logits = None if shared is None else site.infer(parameters, buffers, shared).logits
    images = 0 if shared is None else len(shared)
    frame = model_frame(site.assignment, site.sent, images, classes)
    if settings.collaborates:
        assert logits is not None
        # A model that could not be sent after DCD has no part in the ensemble either.
        frame.weights.encode(arrays)
        return encode_logits(LogitFrame(images, classes, settings.logits), logits)
    return frame.encode(arrays, logits)


def _with_anchors(
    site: Site, job: FitJob[SiteState], parameters: Tensors, buffers: Tensors
) -> Site:
    """Return the site with anchors of the session's classes, by (2)."""
    count, names = site.assignment.settings.anchors_per_class, sorted(job.samples)
    features = site.features_by(parameters, buffers, _rows_of(site, names) if count else [])
    chosen = herded(site.data, names, features, count)
    return replace(site, memory=site.memory.with_anchors(chosen))


def _remembering(site: Site, job: FitJob[SiteState], arrays: Arrays) -> Site:
    """Return the site with its model after DID, where DCD follows."""
    after = None
    if site.assignment.settings.collaborates:
        mark = Mark(
            stage=site.instruction.stage,
            round_of_stage=site.instruction.round.round_of_stage,
            began=site.beginning.digest,
            rows=len(site.names),
            samples=dict(job.samples),
        )
        after = AfterDid(mark, arrays)
    return replace(site, memory=replace(site.memory, after_did=after))


def _rows_of(site: Site, names: Sequence[ClassName]) -> list[int]:
    """Return the rows of classes, class by class."""
    by_class = rows_by_class(site.data)
    return [row for name in names for row in by_class.get(name, ())]


def shared_requests(site: Site) -> list[InferenceRequest]:
    """Return what `begin` asks of the networks that all sites have; raise `MethodError`."""
    found, settings = [], site.assignment.settings
    if site.before is not None and settings.anchors_per_class:
        missing = _rows_of(site, missing_anchors(site.instruction, site.data, site.memory))
        found += [site.look(BEFORE, missing)] if missing else []
    new = new_rows(site.instruction, site.data)
    if new and _imprints(site, learner_of(settings)):
        found.append(site.look(SENT, new))
    return found


def _imprints(site: Site, learner: Learner) -> bool:
    """Whether this site imprints rows of new classes: in a session's first round.

    These rows are then still as the head has grown them.
    """
    before = site.before
    if before is None or not learner.imprints or learner.settings.imprints_together:
        return False
    first = grown(before.arrays, before.names, site.names, site.assignment.settings.seed)
    return np.array_equal(first[WEIGHT][site.old :], site.sent[WEIGHT][site.old :])


def _first_model(site: Site, learner: Learner, new: list[int]) -> State:
    """Return what training begins with: as sent, or with rows of new classes imprinted."""
    if not _imprints(site, learner):
        return site.model_sent
    sent = site.sent
    sums, _ = unit_sums(site.features(SENT, new)(new), site.labels(new), len(site.names))
    rows = imprinted(sent[WEIGHT], class_directions(sums), site.old)
    return site.engine.tensors({**sent, WEIGHT: rows})


def _data(site: Site, rows: list[int], new: int) -> Data:
    """Return the samples: the first `new` are new images, the rest anchors."""
    labels = torch.from_numpy(site.labels(rows))
    anchors = (torch.arange(len(rows)) >= new).to(torch.float32)
    return Data.of(samples_of(site.data.inputs, rows), labels, {ANCHOR: anchors})


def _terms(settings: DcidSettings, learner: Learner, session: Session) -> tuple[Weighted, ...]:
    terms = [Weighted(1.0, learner.classification())]
    if session.old:
        terms += learner.anchor_loss(session)
    if settings.fedmax:
        even = FedMax(settings.fedmax_direction, settings.fedmax_reduction)
        terms.append(Weighted(settings.fedmax, even))
    if settings.proximal:
        terms.append(Weighted(settings.proximal, Proximal(_RECEIVED, settings.proximal_reduction)))
    return tuple(terms)


def _frozen(
    site: Site, session: Session, trained: Tensors, held: dict[str, torch.Tensor]
) -> dict[str, Any]:
    """Return what the terms look at; FedProx's centre is what was sent, not what was imprinted."""
    frozen: dict[str, Any] = {NEW: new_classes(len(site.names), session.old), FIXED: held}
    if site.before is not None:
        parameters, buffers = site.model_before
        frozen[TEACHER] = {"parameters": parameters, "buffers": buffers}
    if site.assignment.settings.proximal:
        sent, _ = site.model_sent
        frozen[_RECEIVED] = split_rows(sent, len(held.get(WEIGHT, ())))[0]
        assert frozen[_RECEIVED].keys() == trained.keys()
    return frozen


def _rates(site: Site, session: Session) -> tuple[float, ...]:
    """Return the rate of each local epoch; a session without old classes may have its own."""
    settings = site.assignment.settings
    epochs, rate, marks = settings.epochs, settings.rate, settings.decrease_epochs
    if not session.old:
        epochs = settings.base_epochs or epochs
        rate = settings.base_rate or rate
        marks = marks if settings.base_decrease_epochs is None else settings.base_decrease_epochs
    first = 0
    if settings.rate_schedule == "session":
        first = epochs * site.assignment.round_within(site.instruction.round.round_of_stage)
    return stepped_rates(rate, epochs, marks, settings.decrease_factor, first)


def _batching(settings: DcidSettings, samples: int) -> Batching:
    size = min(settings.batch, samples)
    return Batching(size, min(settings.smallest_batch, size))
