"""The coordinator's side of each phase: what answers look like, their sum, and what it becomes.

Of all phases but the last of a round and the last of a session the weights stay as they were.
"""

from __future__ import annotations

import numpy as np

from learning.numerics.exact_sum import ScaledIntegers
from learning.numerics.nearest_mean import UNIT_EXPONENT, class_directions
from methods.answers import AnswerSum, Mean
from methods.dcid.assignment import ENSEMBLE, OLD_MODEL, DcidAssignment
from methods.dcid.general import encode_general
from methods.dcid.images import (
    MOST_IMAGES,
    Images,
    decode_images,
    digest_of,
    encode_images,
    shuffled,
)
from methods.dcid.logits import Floats, Integers, LogitFrame, LogitSum
from methods.dcid.messages import (
    MeansFrame,
    ModelFrame,
    began_with,
    decode_logits,
    encode_ensemble,
    means_frame,
    model_frame,
    received,
    shared_images,
)
from methods.dcid.sessions import Rows, before_session
from methods.dcid.settings import Omega
from methods.errors import MethodError
from methods.network_weights import Arrays
from methods.training_half import SHARED, Asked, Combined, Summing
from schemas.canonical import canonical_json
from schemas.values import Digest


class Told:
    """What the coordinator knows of a phase before the first answer."""

    def __init__(self, assignment: DcidAssignment, asked: Asked) -> None:
        self.assignment = assignment
        self.asked = asked
        rows = Rows(asked.weights_class_names, asked.class_names, asked.aliases)
        network = assignment.network
        self.before = before_session(network, asked.weights, asked.extras, rows)

    @property
    def old(self) -> int:
        """Number of classes from before the session, the first of the head."""
        return 0 if self.before is None else len(self.before.names)

    @property
    def classes(self) -> int:
        """Number of rows of the head that is trained."""
        return len(self.asked.class_names)

    def sent(self) -> Arrays:
        """Return what devices begin with."""
        asked = self.asked
        return received(
            self.assignment, asked.weights, asked.weights_class_names, asked.class_names
        )


class Sharing:
    """Phase `share`: blocks of images become the shared set."""

    def __init__(self, assignment: DcidAssignment, asked: Asked) -> None:
        self._told = Told(assignment, asked)
        new = self._told.classes - self._told.old
        self._most = max(1, new * assignment.settings.shared_per_class)

    def check(self, payload: bytes) -> None:
        """Raise `ContributionError` for anything but some of a site's images."""
        self._decode(payload)

    def summing(self, most: int) -> Summing:
        """Return an empty collection; raise `MethodError` if so many sites share too much."""
        if most * self._most > MOST_IMAGES:
            raise MethodError(
                f"shared_per_class: {most} sites may share {most * self._most} images, and "
                f"{MOST_IMAGES} are the most; set shared_per_class lower"
            )
        return _Blocks(self)

    def combined(self, total: Summing) -> Combined:
        """Return the weights as they were, and the shared set."""
        assert isinstance(total, _Blocks)
        asked = self._told.asked
        if not total.blocks:
            raise MethodError("answers: there is none; a shared set needs one at least")
        images = shuffled(total.blocks, asked.seed)
        extras = {**asked.extras, SHARED: encode_images(images)}
        return Combined(asked.weights, extras, digest_of(images), len(images), 0.0)

    def _decode(self, payload: bytes) -> Images:
        return decode_images(payload, self._told.assignment.input_shape, self._most)

    def take(self, payload: bytes) -> Images:
        """Return an answer's images; raise `ContributionError`."""
        return self._decode(payload)


class _Blocks:
    def __init__(self, phase: Sharing) -> None:
        self._phase = phase
        self.blocks: list[Images] = []

    def add(self, payload: bytes, samples: int) -> None:
        """Take in a site's images."""
        del samples
        self.blocks.append(self._phase.take(payload))


class Ensemble:
    """Phase `train` with DCD: logits of all sites become those of their ensemble."""

    def __init__(self, assignment: DcidAssignment, asked: Asked) -> None:
        self._told = Told(assignment, asked)
        images = shared_images(assignment, asked.extras)
        self.frame = LogitFrame(len(images), self._told.classes, assignment.settings.logits)

    def check(self, payload: bytes) -> None:
        """Raise `ContributionError` unless these are logits on the shared set."""
        decode_logits(self.frame, payload)

    def summing(self, most: int) -> Summing:
        """Return the empty ensemble."""
        del most
        return _Logits(self.frame, self._told.assignment.settings.omega)

    def combined(self, total: Summing) -> Combined:
        """Return the weights as they were, and the ensemble's logits."""
        assert isinstance(total, _Logits)
        asked = self._told.asked
        began = began_with(self._told.sent(), asked.class_names)
        extras = {**asked.extras, ENSEMBLE: encode_ensemble(total.total.mean(), began)}
        return Combined(asked.weights, extras, total.total.digest(), total.samples, 0.0)


class _Logits:
    def __init__(self, frame: LogitFrame, omega: Omega) -> None:
        self._frame = frame
        self._omega = omega
        self.total = LogitSum(frame)
        self.samples = 0

    def add(self, payload: bytes, samples: int) -> None:
        """Take in a site's logits."""
        self.take(decode_logits(self._frame, payload), samples)

    def take(self, steps: Integers, samples: int) -> None:
        """Take in logits in steps."""
        self.total.add(steps, samples if self._omega == "samples" else 1)
        self.samples += samples


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
        extras = {name: data for name, data in asked.extras.items() if name != ENSEMBLE}
        if self._told.before is not None:
            extras[OLD_MODEL] = self._told.before.encode()
        weights = encode_general(arrays, asked.class_names)
        return Combined(weights, extras, aggregate, mean.samples, mean.client_drift, remarks)

    def _distilled(self, mean: Mean, ensemble: Floats) -> tuple[Arrays, tuple[str, ...]]:
        from methods.dcid.aggregated import Lesson, distilled  # noqa: PLC0415 - needs torch

        assert self._images is not None
        lesson = Lesson(self._images, ensemble.astype(np.float32), self._told.old)
        return distilled(self._told.assignment, self._told.asked, mean.arrays, lesson)


class _Models:
    def __init__(self, frame: ModelFrame, assignment: DcidAssignment, most: int) -> None:
        settings = assignment.settings
        self._frame = frame
        self.models: AnswerSum = frame.weights.summing(
            most, weighted=settings.averaging == "samples"
        )
        self.logits = None if frame.logits is None else _Logits(frame.logits, settings.omega)

    def add(self, payload: bytes, samples: int) -> None:
        """Take in a site's weights, and their logits."""
        answer, steps = self._frame.parts(payload)
        self.models.add(answer, samples)
        if self.logits is not None:
            assert steps is not None
            self.logits.take(steps, samples)


class Measuring:
    """Phase `means`: sums of anchors' features become the directions of class means."""

    def __init__(self, assignment: DcidAssignment, asked: Asked) -> None:
        self._told = Told(assignment, asked)
        self.frame = means_frame(assignment, self._told.classes)

    def check(self, payload: bytes) -> None:
        """Raise `ContributionError` unless these are sums of as many features as they say."""
        self.frame.decode(payload)

    def summing(self, most: int) -> Summing:
        """Return the empty sum: 2^30 steps, 100,000 anchors and 2^16 sites fit 63 bits."""
        del most
        return _Means(self.frame)

    def combined(self, total: Summing) -> Combined:
        """Return the weights with the class means, by which exported models answer."""
        assert isinstance(total, _Means)
        names = self._told.asked.class_names
        rows = class_directions(ScaledIntegers(total.sums, UNIT_EXPONENT)).astype(np.float32)
        without = [name for name, count in zip(names, total.counts, strict=True) if not count]
        remarks = (f"no site has an anchor of {', '.join(without)}",) if without else ()
        return Combined(
            encode_general(self._told.sent(), names, rows),
            dict(self._told.asked.extras),
            _digest_of_means(total),
            max(1, int(total.counts.sum())),
            0.0,
            remarks,
        )


class _Means:
    def __init__(self, frame: MeansFrame) -> None:
        self._frame = frame
        self.sums = np.zeros((frame.classes, frame.width), np.int64)
        self.counts = np.zeros(frame.classes, np.int64)

    def add(self, payload: bytes, samples: int) -> None:
        """Take in a site's sums."""
        del samples  # anchors count, each once
        sums, counts = self._frame.decode(payload)
        self.sums += sums
        self.counts += counts


def _both(weights: Digest, logits: Digest) -> Digest:
    return Digest.of(canonical_json({"weights": str(weights), "logits": str(logits)}))


def _digest_of_means(total: _Means) -> Digest:
    header = canonical_json({"form": "means-sum-1", "shape": list(total.sums.shape)})
    parts = (total.sums.astype("<i8").tobytes(), total.counts.astype("<i8").tobytes())
    return Digest.of(b"".join((header, *parts)))
