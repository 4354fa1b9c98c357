"""The coordinator's side of each phase: what answers look like, their sum, and what it becomes.

Of all phases but the last of a round and the last of a session the weights stay as they were.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from fleetledger.learning.networks.head import WEIGHT
from fleetledger.learning.networks.imprinting import imprinted
from fleetledger.learning.networks.plan import is_buffer
from fleetledger.learning.numerics.exact_sum import ScaledIntegers
from fleetledger.learning.numerics.nearest_mean import UNIT_EXPONENT, class_directions
from fleetledger.methods.dcid.assignment import ENSEMBLE, OLD_MODEL, DcidAssignment
from fleetledger.methods.dcid.images import (
    MOST_IMAGES,
    Images,
    decode_images,
    digest_of,
    encode_images,
    shared_images,
    shuffled,
)
from fleetledger.methods.dcid.logits import Floats, Integers, LogitFrame, LogitSum
from fleetledger.methods.dcid.messages import (
    MeansFrame,
    ModelFrame,
    decode_logits,
    encode_ensemble,
    imprinting_frame,
    means_frame,
    model_frame,
)
from fleetledger.methods.dcid.model import Beginning, encode_general
from fleetledger.methods.dcid.settings import Omega
from fleetledger.methods.errors import MethodError
from fleetledger.methods.training.exchange import (
    SHARED,
    CountedUpdate,
    Partial,
    RoundConfig,
    RoundOutcome,
    RoundParts,
    Summing,
)
from fleetledger.methods.training.network_weights import Arrays
from fleetledger.runtime.count_words import count_of
from fleetledger.schemas.canonical import canonical_json
from fleetledger.schemas.values import Digest


class _Phase:
    """What is known of a phase before the first answer."""

    def __init__(self, assignment: DcidAssignment, config: RoundConfig) -> None:
        self.assignment = assignment
        self.config = config
        self.beginning = Beginning(
            assignment,
            config.weights,
            config.weights_class_names,
            config.class_names,
            config.extras,
            config.aliases,
        )
        self.before = self.beginning.before
        self.classes = len(config.class_names)

    def lasting(self) -> dict[str, bytes]:
        """Return the extras that outlast the session: images of the operator's, if there are any.

        The next session has an old model and shared images of its own.
        """
        wanted = {SHARED} if self.assignment.needs_shared else set()
        return {name: data for name, data in self.config.extras.items() if name in wanted}

    def passed_on(self) -> dict[str, bytes]:
        """Return the files that devices are given once the weights have a row for every class."""
        config, before = self.config, self.before
        if config.ends_stage:
            return self.lasting()
        extras = {name: data for name, data in config.extras.items() if name != ENSEMBLE}
        if before is not None:
            extras[OLD_MODEL] = before.encode()
        return extras


class Sharing(_Phase):
    """Phase `share`: blocks of images become the shared set."""

    def __init__(self, assignment: DcidAssignment, config: RoundConfig) -> None:
        super().__init__(assignment, config)
        new = self.classes - self.beginning.old
        self._most = max(1, new * assignment.settings.shared_per_class)

    def check(self, payload: bytes) -> None:
        """Raise `ContributionError` for anything but some of a site's images."""
        self.images(payload)

    def summing(self, most: int) -> Summing:
        """Return an empty collection; raise `MethodError` if so many sites share too much."""
        if most * self._most > MOST_IMAGES:
            raise MethodError(
                f"shared_per_class: {most} sites may share {count_of(most * self._most, 'image')}, "
                f"and {MOST_IMAGES} are the most; set shared_per_class lower"
            )
        return _Blocks(self)

    def combined(self, total: Summing) -> RoundOutcome:
        """Return the weights as they were, and the shared set."""
        assert isinstance(total, _Blocks)
        config = self.config
        if not total.blocks:
            raise MethodError("answers: there is none; a shared set needs one at least")
        images = shuffled(total.blocks, config.seed)
        extras = {**config.extras, SHARED: encode_images(images)}
        return RoundOutcome(config.weights, extras, digest_of(images), len(images), 0.0)

    def images(self, payload: bytes) -> Images:
        """Return an answer's images; raise `ContributionError` for anything else."""
        return decode_images(payload, self.assignment.input_shape, self._most)


class _Blocks:
    def __init__(self, phase: Sharing) -> None:
        self._phase = phase
        self.blocks: list[Images] = []

    def add(self, payload: bytes, samples: int) -> None:
        """Take in a site's images."""
        del samples
        self.blocks.append(self._phase.images(payload))

    def partial(self) -> Partial:
        """Return the blocks."""
        return Partial((), tuple(self.blocks))

    def join(self, other: Partial) -> None:
        """Take in other blocks; in which order does not matter."""
        self.blocks.extend(block.astype(np.uint8, copy=False) for block in other.arrays)


class Ensemble(_Phase):
    """Phase `train` with DCD: logits of all sites become those of their ensemble."""

    def __init__(self, assignment: DcidAssignment, config: RoundConfig) -> None:
        super().__init__(assignment, config)
        images = shared_images(assignment, config.extras)
        self.frame = LogitFrame(len(images), self.classes, assignment.settings.logits)

    def check(self, payload: bytes) -> None:
        """Raise `ContributionError` unless these are logits on the shared set."""
        decode_logits(self.frame, payload)

    def summing(self, most: int) -> Summing:
        """Return the empty ensemble."""
        del most
        return EnsembleSum(self.frame, self.assignment.settings.omega)

    def combined(self, total: Summing) -> RoundOutcome:
        """Return the weights as they were, and the ensemble's logits."""
        assert isinstance(total, EnsembleSum)
        config = self.config
        logits = encode_ensemble(total.total.mean(), self.beginning.digest)
        extras = {**config.extras, ENSEMBLE: logits}
        return RoundOutcome(config.weights, extras, total.total.digest(), total.samples, 0.0)


class EnsembleSum:
    """The exact weighted sum of logits, and how many samples are behind it."""

    def __init__(self, frame: LogitFrame, omega: Omega) -> None:
        self._frame = frame
        self._omega = omega
        self.total = LogitSum(frame)
        self.samples = 0

    def add(self, payload: bytes, samples: int) -> None:
        """Take in a site's logits."""
        self.take(decode_logits(self._frame, payload), samples)

    def partial(self) -> Partial:
        """Return the samples, and the sums with their weight."""
        return Partial((self.samples,), ()) + self.total.partial()

    def join(self, other: Partial) -> None:
        """Take in the logits of another sum."""
        own, total = other.divided(1, 0)
        self.total.join(total)
        self.samples += own.numbers[0]

    def take(self, steps: Integers, samples: int) -> None:
        """Take in logits in steps."""
        self.total.add(steps, samples if self._omega == "samples" else 1)
        self.samples += samples


class Averaging(_Phase):
    """Phases `distil` and `train-alone`: the mean of models, and DAD where it is set."""

    def __init__(self, assignment: DcidAssignment, config: RoundConfig) -> None:
        super().__init__(assignment, config)
        wanted = assignment.coordinator_trains
        self._images = shared_images(assignment, config.extras) if wanted else None
        images = 0 if self._images is None else len(self._images)
        self.frame = model_frame(assignment, self.beginning.sent, images, self.classes)

    def check(self, payload: bytes) -> None:
        """Raise `ContributionError` unless these are weights, with logits where they are due."""
        self.frame.check(payload)

    def summing(self, most: int) -> Summing:
        """Return the empty sum; raise `MethodError` where it might not be exact."""
        return _Models(self.frame, self.assignment, most)

    def combined(self, total: Summing) -> RoundOutcome:
        """Return the general model of the round."""
        assert isinstance(total, _Models)
        config, mean = self.config, total.models.mean()
        arrays = self.with_statistics(mean.arrays)
        aggregate, remarks = mean.aggregate, tuple[str, ...]()
        if total.logits is not None:
            arrays, remarks = self._distilled(arrays, total.logits.total.mean())
            aggregate = _both(aggregate, total.logits.total.digest())
        weights, extras = encode_general(arrays, config.class_names), self.passed_on()
        return RoundOutcome(weights, extras, aggregate, mean.samples, mean.client_drift, remarks)

    def parts(self, updates: Sequence[CountedUpdate]) -> RoundParts:
        """Return the models in updates, what each weighs in the ensemble, and their mean."""
        total, models = self.summing(len(updates)), []
        for update in updates:
            payload = update.read()
            total.add(payload, update.samples)
            alone = CountedUpdate(1, partial(self._weights_in, payload))
            models.append(self.frame.weights.mean([alone], weighted=False).arrays)
        assert isinstance(total, _Models)
        by_samples = self.assignment.settings.omega == "samples"
        weights = [update.samples if by_samples else 1 for update in updates]
        return RoundParts(models, weights, self.with_statistics(total.models.mean().arrays))

    def _weights_in(self, payload: bytes) -> bytes:
        return self.frame.parts(payload)[0]

    def with_statistics(self, mean: Arrays) -> Arrays:
        """Return the mean of (4) with the running statistics that the settings ask for."""
        settings = self.assignment.settings
        if settings.running_statistics == "sent":
            return {**mean, **{n: a for n, a in self.beginning.sent.items() if is_buffer(n)}}
        if not settings.re_estimates:
            return mean
        from fleetledger.methods.dcid.distillation import re_estimated  # noqa: PLC0415 - needs torch

        assert self._images is not None
        return re_estimated(self.assignment, self.config, mean, self._images)

    def _distilled(self, mean: Arrays, ensemble: Floats) -> tuple[Arrays, tuple[str, ...]]:
        from fleetledger.methods.dcid.distillation import Teacher, distilled  # noqa: PLC0415 - needs torch

        assert self._images is not None
        teacher = Teacher(self._images, ensemble.astype(np.float32), self.beginning.old)
        return distilled(self.assignment, self.config, mean, teacher)


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


class _Summed(_Phase):
    """Phases whose answers are sums of features by class."""

    frame: MeansFrame

    def check(self, payload: bytes) -> None:
        """Raise `ContributionError` unless these are sums of as many features as they say."""
        self.frame.decode(payload)

    def summing(self, most: int) -> Summing:
        """Return the empty sum: 2^30 steps, 100,000 images and 2^16 sites fit 63 bits."""
        del most
        return _Means(self.frame)


class Imprinting(_Summed):
    """Phase `imprint`: sums of new images' features become the head's new rows.

    The weights then have a row for every class, and theta^(t-1) goes with them.
    """

    def __init__(self, assignment: DcidAssignment, config: RoundConfig) -> None:
        super().__init__(assignment, config)
        self.frame = imprinting_frame(assignment, self.classes)

    def combined(self, total: Summing) -> RoundOutcome:
        """Return the weights with imprinted rows; as they were in a session without old classes."""
        assert isinstance(total, _Means)
        config, sent, before = self.config, self.beginning.sent, self.before
        digest, images = _digest_of_means(total), max(1, int(total.counts.sum()))
        if before is None:
            return RoundOutcome(config.weights, config.extras, digest, images, 0.0)
        directions = class_directions(ScaledIntegers(total.sums, UNIT_EXPONENT))
        rows = imprinted(sent[WEIGHT], directions, len(before.names))
        weights = encode_general({**sent, WEIGHT: rows}, config.class_names)
        return RoundOutcome(weights, self.passed_on(), digest, images, 0.0)


class Measuring(_Summed):
    """Phase `means`: sums of anchors' features become the directions of class means."""

    def __init__(self, assignment: DcidAssignment, config: RoundConfig) -> None:
        super().__init__(assignment, config)
        self.frame = means_frame(assignment, self.classes)

    def combined(self, total: Summing) -> RoundOutcome:
        """Return the weights with the class means, by which exported models answer."""
        assert isinstance(total, _Means)
        names = self.config.class_names
        rows = class_directions(ScaledIntegers(total.sums, UNIT_EXPONENT)).astype(np.float32)
        without = [name for name, count in zip(names, total.counts, strict=True) if not count]
        remarks = (f"no site has an anchor of {', '.join(without)}",) if without else ()
        return RoundOutcome(
            encode_general(self.beginning.sent, names, rows),
            self.lasting(),
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
        del samples  # images count, each once
        sums, counts = self._frame.decode(payload)
        self.sums += sums.astype(np.int64, copy=False)
        self.counts += counts.astype(np.int64, copy=False)

    def partial(self) -> Partial:
        """Return the sums, and how many images are in them."""
        return Partial((), (self.sums, self.counts))

    def join(self, other: Partial) -> None:
        """Take in other sums."""
        sums, counts = other.arrays
        self.sums += sums.astype(np.int64, copy=False)
        self.counts += counts.astype(np.int64, copy=False)


def _digest_of_means(total: _Means) -> Digest:
    header = canonical_json({"form": "means-sum-1", "shape": list(total.sums.shape)})
    parts = (total.sums.astype("<i8").tobytes(), total.counts.astype("<i8").tobytes())
    return Digest.of(b"".join((header, *parts)))
