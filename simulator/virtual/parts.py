"""What a simulated device does in order to count: it lists its samples, and computes parts of them.

Features come from the bank instead of from pictures; what is computed from them is the method's own
device side, with the context that a real agent of this name gives it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fleetledger.device_agent.core import inputs
from fleetledger.device_agent.core.requests import ComputePart
from fleetledger.device_agent.home.store.blobs import OffersPayloads
from fleetledger.device_agent.models.work import Extracted
from fleetledger.device_agent.program.device_jobs import part_computed
from fleetledger.learning.errors import LearningError
from fleetledger.methods.registry import statistics_device
from fleetledger.methods.statistics.part import PartContext
from fleetledger.methods.statistics.sides import StatisticsAssignment
from fleetledger.runtime.errors import FleetledgerError
from fleetledger.schemas.assignments import Assignment
from fleetledger.schemas.values import DeviceId, Digest
from fleetledger.simulator.datasets.samples import SampleSet
from fleetledger.simulator.datasets.segmentation.tasks import shown_by
from fleetledger.simulator.engines.paths import sample_path
from fleetledger.simulator.errors import EngineError
from fleetledger.simulator.features.interface import Floats

Indices = NDArray[np.int64]
Delivery = tuple[int, Indices]
"""Stage of arrival, and training samples."""


class Lister:
    """Lists the samples that lie on a device; digests are computed once for all devices."""

    def __init__(self, train: SampleSet) -> None:
        self._train = train
        self._digests: dict[int, Digest] = {}

    def scanned(self, delivered: Sequence[Delivery]) -> inputs.Scanned:
        """Return what a device finds that got these samples: they lie by path."""
        images = [
            self._listed(stage, index) for stage, indices in delivered for index in indices.tolist()
        ]
        return inputs.Scanned(tuple(sorted(images, key=lambda image: image.path)))

    def _listed(self, stage: int, index: int) -> inputs.Image:
        train, digest = self._train, self._digests.get(index)
        if digest is None:
            digest = self._digests[index] = train.digest(index)
        names, path = train.class_names, sample_path(train, stage, index)
        first, *others = (names[label] for label in shown_by(train, index))
        return inputs.Image(path, digest, first, tuple(sorted(others)))


@dataclass(frozen=True)
class PartPlace:
    """What a part's chance comes from, and where its payload goes if it is large."""

    context: PartContext
    blobs: OffersPayloads


class PartMaker:
    """Computes parts; what the method was told is read once for as long as it stays the same."""

    def __init__(self) -> None:
        self._asked: tuple[str, Mapping[str, object]] | None = None
        self._own: StatisticsAssignment | None = None

    def computed(
        self, device: DeviceId, request: ComputePart, features: Floats, place: PartPlace
    ) -> inputs.PartComputed:
        """Return the part of images whose features these are, a row each; raise `EngineError`.

        A real agent would try again for ever; nothing would be another the next time.
        """
        side = statistics_device(request.assignment.method)
        extracted = Extracted(
            features,
            tuple(image.class_name for image in request.images),
            frozenset(image.digest for image in request.images),
            (),
            rows=request.images,
        )
        try:
            own = self._told(request.assignment)
            context = replace(
                extracted.context(place.context), class_names=request.assignment.class_names
            )
            made = side.finish(own, extracted.features, extracted.labels, context)
        except (FleetledgerError, LearningError) as error:
            raise EngineError(f"{device}: {error}") from error
        return part_computed(request, extracted, made, place.blobs)

    def _told(self, assignment: Assignment) -> StatisticsAssignment:
        asked = assignment.method, assignment.settings
        if self._own is None or self._asked != asked:
            side = statistics_device(assignment.method)
            self._asked, self._own = asked, side.read_assignment(assignment.settings)
        return self._own
