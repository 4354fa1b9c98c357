"""A site with an order, and the phases in which it trains nothing.

share    up to q of its images of each new class, without their labels. Which images, and their
         order in the file, follow from the round's seed and the site's name. The owner has allowed
         it, or this phase is never job (`publish_images` of the device's own settings)
means    sums of its anchors' features at length 1 under the general model: so a class's mean over
         all sites is known to the coordinator, and no anchor's feature is
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt
import torch

from learning.errors import LearningError
from learning.networks.conversion import brought_home
from learning.networks.pictures import Pictures
from learning.networks.torch_layers import Tensors
from learning.numerics.nearest_mean import unit_sums
from learning.training.chance import Chance
from learning.training.settings import TrainingEngineSettings
from methods.dcid.assignment import DcidAssignment
from methods.dcid.images import encode_images
from methods.dcid.memory import Features, Memory, herded, rows_by_class
from methods.dcid.messages import means_frame
from methods.dcid.model import Before, Beginning
from methods.device_updates import update_of
from methods.errors import MethodError
from methods.network_weights import Arrays
from methods.training import ClientUpdate, FitInstruction, FitJob, LocalData
from schemas.values import ClassName


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
        """What the round begins with."""
        instruction, round_ = self.instruction, self.instruction.round
        known = round_.weights_class_names
        return Beginning(
            self.assignment,
            instruction.weights,
            known,
            self.names,
            instruction.extras,
            round_.aliases,
        )

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

    def features(self, arrays: Arrays) -> Features:
        """Return what makes features of this site's images under a model."""
        parameters, buffers = self.engine.tensors(arrays)
        return lambda rows: self.infer(parameters, buffers, self.data.inputs[rows])[0]

    def infer(
        self, parameters: Tensors, buffers: Tensors, images: npt.NDArray[np.generic]
    ) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
        """Return features (n, d) and logits (n, C) of images under a network in use."""
        infer = self.engine.inference(self.pictures)
        outputs = infer(self.assignment.network, parameters, buffers, torch.tensor(images))
        return brought_home(outputs.features).numpy(), brought_home(outputs.logits).numpy()

    def counted(self, rows: list[int]) -> dict[ClassName, int]:
        """Return how many of these rows each class has."""
        return dict(Counter(self.data.class_names[row] for row in rows))


@dataclass(frozen=True, eq=False)
class SiteState:
    """What has to be known to finish a phase."""

    site: Site


@dataclass(frozen=True, eq=False)
class _Chosen(SiteState):
    """Which rows of its data."""

    rows: list[int]


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


def begin_means(site: Site) -> FitJob[SiteState] | None:
    """Return what is measured, or None without an anchor; raise `MethodError`.

    Classes of which there are images and no anchors get theirs here: a base session that was
    trained elsewhere has no rounds.
    """
    without = sorted(set(site.data.class_names) & set(site.names) - set(site.memory.anchors))
    count = site.assignment.settings.anchors_per_class
    chosen = herded(site.data, without, site.features(site.sent), count)
    site = replace(site, memory=site.memory.with_anchors(chosen))
    anchors = {
        (name, digest)
        for name, digests in site.memory.anchors.items()
        if name in site.names
        for digest in digests[:count]
    }
    named = zip(site.data.class_names, site.data.digests, strict=True)
    places = {of: row for row, of in enumerate(named) if of in anchors}
    rows = sorted(places.values())
    return FitJob(None, site.counted(rows), _Chosen(site, rows)) if rows else None


def finish_means(job: FitJob[SiteState]) -> ClientUpdate:
    """Return sums and numbers by class; raise `MethodError` where features are not finite."""
    kept = job.state
    assert isinstance(kept, _Chosen)
    site, rows = kept.site, kept.rows
    try:
        sums, counts = unit_sums(site.features(site.sent)(rows), site.labels(rows), len(site.names))
    except LearningError as error:
        raise MethodError(f"means: {error}") from error
    payload = means_frame(site.assignment, len(site.names)).encode(sums, counts)
    return update_of(job, payload, site.memory)
