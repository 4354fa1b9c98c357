"""Phases `distil` and `train-alone`: the mean of models, and DAD where it is set."""

from __future__ import annotations

import numpy as np

from methods.answers import Mean
from methods.dcid.assignment import ENSEMBLE, OLD_MODEL, DcidAssignment
from methods.dcid.combining.ensemble import EnsembleSum
from methods.dcid.combining.told import Told
from methods.dcid.general import encode_general
from methods.dcid.logits import Floats
from methods.dcid.messages import ModelFrame, model_frame, shared_images
from methods.network_weights import Arrays
from methods.training_half import Asked, Combined, Partial, Summing
from schemas.canonical import canonical_json
from schemas.values import Digest


class Averaging:
    """Phases `distil` and `train-alone`: the mean of models, and DAD where it is set."""

    def __init__(self, assignment: DcidAssignment, asked: Asked) -> None:
        self._told = Told(assignment, asked)
        aggregates = assignment.settings.aggregates
        self._images = shared_images(assignment, asked.extras) if aggregates else None
        images = 0 if self._images is None else len(self._images)
        self.frame = model_frame(assignment, self._told.sent(), images, self._told.classes)

    def check(self, payload: bytes) -> None:
        """Raise `ContributionError` unless these are weights, with logits where they are due."""
        self.frame.check(payload)

    def summing(self, most: int) -> Summing:
        """Return the empty sum; raise `MethodError` where it might not be exact."""
        return _Models(self.frame, self._told.assignment, most)

    def combined(self, total: Summing) -> Combined:
        """Return the general model of the round."""
        assert isinstance(total, _Models)
        asked, mean = self._told.asked, total.models.mean()
        arrays: Arrays = {**mean.arrays}
        aggregate, remarks = mean.aggregate, tuple[str, ...]()
        if total.logits is not None:
            arrays, remarks = self._distilled(mean, total.logits.total.mean())
            aggregate = _both(aggregate, total.logits.total.digest())
        weights, extras = encode_general(arrays, asked.class_names), self._passed_on()
        return Combined(weights, extras, aggregate, mean.samples, mean.client_drift, remarks)

    def _passed_on(self) -> dict[str, bytes]:
        """Return the files that devices are given from here on."""
        asked, before = self._told.asked, self._told.before
        if asked.ends_stage:
            return self._told.lasting()
        extras = {name: data for name, data in asked.extras.items() if name != ENSEMBLE}
        if before is not None:
            extras[OLD_MODEL] = before.encode()
        return extras

    def _distilled(self, mean: Mean, ensemble: Floats) -> tuple[Arrays, tuple[str, ...]]:
        from methods.dcid.aggregated import Lesson, distilled  # noqa: PLC0415 - needs torch

        assert self._images is not None
        lesson = Lesson(self._images, ensemble.astype(np.float32), self._told.old)
        return distilled(self._told.assignment, self._told.asked, mean.arrays, lesson)


class _Models:
    def __init__(self, frame: ModelFrame, assignment: DcidAssignment, most: int) -> None:
        settings = assignment.settings
        self._frame = frame
        self.models = frame.weights.summing(most, weighted=settings.averaging == "samples")
        self.logits = None if frame.logits is None else EnsembleSum(frame.logits, settings.omega)

    def add(self, payload: bytes, samples: int) -> None:
        """Take in a site's weights, and their logits."""
        answer, steps = self._frame.parts(payload)
        self.models.add(answer, samples)
        if self.logits is not None:
            assert steps is not None
            self.logits.take(steps, samples)

    def partial(self) -> Partial:
        """Return the sum of the weights, and that of the logits where there are some."""
        models = self.models.partial()
        return models if self.logits is None else models + self.logits.partial()

    def join(self, other: Partial) -> None:
        """Take in other sums."""
        own = self.models.partial()
        models, logits = other.divided(len(own.numbers), len(own.arrays))
        self.models.join(models)
        if self.logits is not None:
            self.logits.join(logits)


def _both(weights: Digest, logits: Digest) -> Digest:
    return Digest.of(canonical_json({"weights": str(weights), "logits": str(logits)}))
