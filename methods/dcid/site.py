"""A site with an order, and the phases in which it trains nothing.

share    up to q of its images of each new class, without their labels. Which images, and their
         order in the file, follow from the round's seed and the site's name. The owner has allowed
         it, or this phase is never job (`publish_images` of the device's own settings)
imprint  sums of its new images' features at length 1 under the model before the session, by which
         the coordinator makes the head's new rows, equal for all sites
means    sums of its anchors' features at length 1 under the general model: so a class's mean over
         all sites is known to the coordinator, and no anchor's feature is
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from torch import Tensor

from fleetledger.learning.errors import LearningError
from fleetledger.learning.networks.conversion import brought_home, to_tensors
from fleetledger.learning.networks.pictures import Pictures
from fleetledger.learning.networks.torch_layers import Tensors
from fleetledger.learning.numerics.nearest_mean import unit_sums
from fleetledger.learning.training.chance import Chance
from fleetledger.learning.training.resident import SampleArray, samples_of, tensor_of
from fleetledger.learning.training.settings import TrainingEngineSettings
from fleetledger.learning.training.shared_inference import SENT, InferenceRequest
from fleetledger.methods.dcid.assignment import DcidAssignment
from fleetledger.methods.dcid.images import encode_images
from fleetledger.methods.dcid.memory import Features, Memory, herded, rows_by_class
from fleetledger.methods.dcid.messages import (
    MOST_IMPRINTED,
    MeansFrame,
    imprinting_frame,
    means_frame,
)
from fleetledger.methods.dcid.model import BEFORE, Before, Beginning
from fleetledger.methods.errors import MethodError
from fleetledger.methods.training.device_updates import update_of
from fleetledger.methods.training.exchange import ClientUpdate, FitInstruction, FitJob, LocalData
from fleetledger.methods.training.network_weights import Arrays
from fleetledger.methods.training.round_cache import RoundCache
from fleetledger.schemas.values import ClassName

State = tuple[dict[str, Tensor], dict[str, Tensor]]
"""Parameters and buffers."""

_KEPT = 4
"""Networks of rounds that stay on an accelerator."""
_BEGUN: RoundCache[Beginning] = RoundCache()


class Seen(NamedTuple):
    """What a network makes of some images."""

    features: npt.NDArray[np.float32]
    """(n, d)."""
    logits: npt.NDArray[np.float32]
    """(n, C)."""


@dataclass(frozen=True, eq=False)
class Site:
    """What a site has and was asked; `memory` under the names that classes have now."""

    assignment: DcidAssignment
    instruction: FitInstruction
    data: LocalData
    memory: Memory
    pictures: Pictures
    engine: TrainingEngineSettings
    """Where networks are computed."""

    @property
    def names(self) -> tuple[ClassName, ...]:
        """Rows of the head that is trained."""
        return self.instruction.round.class_names

    @property
    def chance(self) -> Chance:
        """The chance of this site in this phase."""
        instruction = self.instruction
        round_ = instruction.round
        return Chance(
            round_.seed, instruction.device, instruction.stage, round_.number, round_.phase
        )

    @cached_property
    def beginning(self) -> Beginning:
        """What the round begins with; on an accelerator all sites of a process share it."""
        instruction, round_ = self.instruction, self.instruction.round
        begun = Beginning(
            self.assignment,
            instruction.weights,
            round_.weights_class_names,
            self.names,
            instruction.extras,
            round_.aliases,
        )
        if self.engine.device == "cpu":
            return begun
        return _BEGUN(round_, self.assignment, lambda: begun)

    @property
    def sent(self) -> Arrays:
        """The weights that were sent, with the head's new rows."""
        return self.beginning.sent

    @property
    def before(self) -> Before | None:
        """The model before the session."""
        return self.beginning.before

    @property
    def old(self) -> int:
        """Number of classes from before the session, the first of the head."""
        return self.beginning.old

    def labels(self, rows: list[int]) -> npt.NDArray[np.int64]:
        """Return the classes (n,) of these rows as rows of the head."""
        return np.array([self.names.index(self.data.class_names[row]) for row in rows], np.int64)

    @property
    def model_sent(self) -> State:
        """The weights that were sent, where networks are computed."""
        return model_there(self.beginning, SENT, self.engine)

    @property
    def model_before(self) -> State:
        """The model before the session, which there is, where networks are computed."""
        return model_there(self.beginning, BEFORE, self.engine)

    def features(self, network: str, rows: list[int]) -> Features:
        """Return what makes features of rows of this site under a network that all sites have.

        Where the looks of many sites were computed together, those of these `rows` were.
        """
        shared = self.engine.shared_inference
        parts = None if shared is None else shared.of(self.instruction.device, network)
        if parts is not None:
            return _looked_up(rows, np.concatenate(list(parts)))
        return self.features_by(*model_there(self.beginning, network, self.engine), rows)

    def features_by(self, parameters: Tensors, buffers: Tensors, rows: list[int]) -> Features:
        """Return what makes features of rows under a network: on an accelerator of all at once."""
        inputs = self.data.inputs
        if self.engine.device == "cpu" or not rows:
            return lambda some: self.infer(parameters, buffers, samples_of(inputs, some)).features
        seen = self.infer(parameters, buffers, samples_of(inputs, rows)).features
        return _looked_up(rows, seen)

    def infer(self, parameters: Tensors, buffers: Tensors, images: SampleArray) -> Seen:
        """Return what a network in use makes of images."""
        infer = self.engine.inference(self.pictures)
        outputs = infer(self.assignment.network, parameters, buffers, tensor_of(images))
        found = brought_home(outputs.features).numpy(), brought_home(outputs.logits).numpy()
        return Seen(*found)

    def look(self, network: str, rows: list[int]) -> InferenceRequest:
        """Return the question whose answer `features` takes, of at least one row."""
        infer, model = self.engine.inference(self.pictures), self.assignment.network
        parameters, buffers = model_there(self.beginning, network, self.engine)

        def features(inputs: Tensor) -> npt.NDArray[np.float32]:
            made: npt.NDArray[np.float32]
            made = brought_home(infer(model, parameters, buffers, inputs).features).numpy()
            return made

        samples = samples_of(self.data.inputs, rows)
        return InferenceRequest(samples, features, infer.batch_size, network)

    def counted(self, rows: list[int]) -> dict[ClassName, int]:
        """Return how many of these rows each class has."""
        return dict(Counter(self.data.class_names[row] for row in rows))


def _looked_up(rows: list[int], seen: npt.NDArray[np.float32]) -> Features:
    """Return what tells features of rows that were all computed."""
    places = {row: place for place, row in enumerate(rows)}
    return lambda some: seen[[places[row] for row in some]]


def model_there(beginning: Beginning, network: str, engine: TrainingEngineSettings) -> State:
    """Return parameters and buffers of a network that all sites of a round have.

    On an accelerator they are copied there once.
    """
    if engine.device == "cpu":
        return engine.tensors(beginning.arrays_of(network))
    return _kept_there(beginning, network, engine.device)


@lru_cache(_KEPT)
def _kept_there(beginning: Beginning, network: str, device: str) -> State:
    return to_tensors(beginning.arrays_of(network), device)


@dataclass(frozen=True, eq=False)
class SiteState:
    """What has to be known to finish a phase."""

    site: Site


@dataclass(frozen=True, eq=False)
class _Chosen(SiteState):
    """Which rows of its data."""

    rows: list[int]
    features: Features | None = None
    """Of these rows, where an accelerator has computed them."""


def begin_sharing(site: Site) -> FitJob[SiteState] | None:
    """Return what is shared, or None without images of the session's classes."""
    new = set(site.instruction.stage_class_names)
    drawn = site.chance.shuffled(0, len(site.data)).tolist()
    places = {row: place for place, row in enumerate(drawn)}
    count = site.assignment.settings.shared_per_class
    rows = [
        row
        for name, own in rows_by_class(site.data).items()
        if name in new
        for row in sorted(own, key=places.__getitem__)[:count]
    ]
    rows.sort(key=places.__getitem__)
    return FitJob(None, site.counted(rows), _Chosen(site, rows)) if rows else None


def finish_sharing(job: FitJob[SiteState]) -> ClientUpdate:
    """Return the images."""
    kept = job.state
    assert isinstance(kept, _Chosen)
    site, rows = kept.site, kept.rows
    images = encode_images(np.asarray(site.data.inputs[rows], np.uint8))
    return update_of(job, images, site.memory)


def begin_imprinting(site: Site) -> FitJob[SiteState] | None:
    """Return what is measured, or None without images of the session's classes."""
    rows = rows_to_imprint(site)
    return FitJob(None, site.counted(rows), _Chosen(site, rows)) if rows else None


def rows_to_imprint(site: Site) -> list[int]:
    """Return the rows of the session's classes, as many of each as a sum may hold."""
    new = set(site.instruction.stage_class_names)
    by_class = rows_by_class(site.data).items()
    return sorted(row for name, own in by_class if name in new for row in own[:MOST_IMPRINTED])


def finish_imprinting(job: FitJob[SiteState]) -> ClientUpdate:
    """Return sums and numbers by class; raise `MethodError` where features are not finite."""
    site = job.state.site
    return _summed(job, imprinting_frame(site.assignment, len(site.names)))


def begin_means(site: Site) -> FitJob[SiteState] | None:
    """Return what is measured, or None without an anchor; raise `MethodError`.

    Classes of which there are images and no anchors get theirs here: a base session that was
    trained elsewhere has no rounds.
    """
    without, count = _without_anchors(site), site.assignment.settings.anchors_per_class
    features = site.features(SENT, rows_of_means(site))
    chosen = herded(site.data, without, features, count)
    site = replace(site, memory=site.memory.with_anchors(chosen))
    rows = _anchors(site)
    kept = None if site.engine.device == "cpu" else features  # a network is in memory with it
    return FitJob(None, site.counted(rows), _Chosen(site, rows, kept)) if rows else None


def rows_of_means(site: Site) -> list[int]:
    """Return the rows of which `begin_means` and `finish_means` need features."""
    without = _without_anchors(site)
    by_class = rows_by_class(site.data)
    return sorted({*_anchors(site), *(row for name in without for row in by_class[name])})


def _without_anchors(site: Site) -> list[ClassName]:
    """Return the classes of which there are images and no anchors."""
    return sorted(set(site.data.class_names) & set(site.names) - set(site.memory.anchors))


def _anchors(site: Site) -> list[int]:
    """Return the rows of the anchors of the head's classes, as many of each as are kept."""
    count = site.assignment.settings.anchors_per_class
    anchors = {
        (name, digest)
        for name, digests in site.memory.anchors.items()
        if name in site.names
        for digest in digests[:count]
    }
    named = zip(site.data.class_names, site.data.digests, strict=True)
    return sorted({of: row for row, of in enumerate(named) if of in anchors}.values())


def finish_means(job: FitJob[SiteState]) -> ClientUpdate:
    """Return sums and numbers by class; raise `MethodError` where features are not finite."""
    site = job.state.site
    return _summed(job, means_frame(site.assignment, len(site.names)))


def _summed(job: FitJob[SiteState], frame: MeansFrame) -> ClientUpdate:
    kept = job.state
    assert isinstance(kept, _Chosen)
    site, rows = kept.site, kept.rows
    features = kept.features or site.features(SENT, rows)
    try:
        sums, counts = unit_sums(features(rows), site.labels(rows), len(site.names))
    except LearningError as error:
        raise MethodError(f"{site.instruction.round.phase}: {error}") from error
    return update_of(job, frame.encode(sums, counts), site.memory)
