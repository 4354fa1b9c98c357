"""What leaves a device that learns with DCID, phase by phase, and what every device is sent.

| phase | an answer holds | form |
| --- | --- | --- |
| share | up to q of its images of each new class, without labels | `images` |
| train | logits of its model after DID on the shared set | `logits`, one row for each image of S |
| distil, train-alone | its weights | `methods.training.client_updates`, around the weights that
were sent | | the same with DAD | its weights, and their logits on the shared set | both in one file
| | imprint | sums of its new images' features at length 1, and their number, by class | int64 | |
means | the same of its anchors | int64 |

Sites are sent weights (`model`), the old model, the shared set, and after `train` the ensemble's
logits: half precision, with the digest of the weights that the round began with.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fleetledger.learning.numerics.exact_sum import ScaledIntegers
from fleetledger.learning.numerics.nearest_mean import UNIT_EXPONENT
from fleetledger.methods.dcid.assignment import DcidAssignment
from fleetledger.methods.dcid.logits import (
    LOGITS,
    Integers,
    LogitFrame,
    half_bits,
    half_numbers,
)
from fleetledger.methods.errors import ContributionError
from fleetledger.methods.training.client_updates import UpdateFrame
from fleetledger.methods.training.network_weights import Arrays
from fleetledger.runtime.count_words import count_of
from fleetledger.runtime.errors import SchemaError
from fleetledger.schemas.tensors import Expected, UpTo, encode_tensors, read_tensors
from fleetledger.schemas.values import Digest

_ANSWER, _SUMS, _COUNTS, _BEGAN = "answer", "sums", "counts", "began"
_HEADER_BYTES = 1 << 20


def encode_ensemble(logits: npt.NDArray[np.float64], began: Digest) -> bytes:
    """Return the ensemble's logits (S, C) as a file; raise `MethodError` beyond half precision."""
    return encode_tensors({LOGITS: half_bits(logits)}, {_BEGAN: str(began)})


def decode_ensemble(
    data: bytes, images: int, classes: int
) -> tuple[npt.NDArray[np.float32], Digest]:
    """Return the ensemble's logits (S, C), and what names the weights that the round began with.

    Raises `ContributionError` for other files.
    """
    expected = {LOGITS: Expected("int16", (images, classes))}
    try:
        file = read_tensors(data, expected, len(data) + _HEADER_BYTES)
        began = Digest(str(file.metadata.get(_BEGAN)))
    except SchemaError as error:
        raise ContributionError(f"ensemble: {error}") from error
    return half_numbers(file.tensors[LOGITS]).astype(np.float32), began


def encode_logits(frame: LogitFrame, logits: npt.NDArray[np.float32]) -> bytes:
    """Return an answer to `train`; raise `MethodError` where training diverged."""
    return encode_tensors(frame.encode(logits))


def decode_logits(frame: LogitFrame, payload: bytes) -> Integers:
    """Return the logits of an answer in steps; raise `ContributionError` for any other file."""
    try:
        tensors = read_tensors(payload, frame.expected(), frame.size + _HEADER_BYTES).tensors
    except SchemaError as error:
        raise ContributionError(f"answer: {error}") from error
    return frame.steps(tensors)


@dataclass(frozen=True, eq=False)
class ModelFrame:
    """What answers of weights look like, and of their logits where the coordinator wants them."""

    weights: UpdateFrame
    logits: LogitFrame | None

    def encode(self, arrays: Arrays, logits: npt.NDArray[np.float32] | None) -> bytes:
        """Return an answer; raises `LearningError` and `MethodError` by name."""
        answer = self.weights.encode(arrays)
        if self.logits is None:
            return answer
        assert logits is not None
        tensors = {_ANSWER: np.frombuffer(answer, np.uint8), **self.logits.encode(logits)}
        return encode_tensors(tensors)

    def parts(self, payload: bytes) -> tuple[bytes, Integers | None]:
        """Return the answer of weights alone, unread, and the logits in steps.

        Raises `ContributionError` for any other file.
        """
        if self.logits is None:
            return payload, None
        most = self.weights.form.limit_bytes + _HEADER_BYTES
        expected = {_ANSWER: Expected("uint8", (UpTo(most),)), **self.logits.expected()}
        try:
            file = read_tensors(payload, expected, most + self.logits.size + _HEADER_BYTES)
        except SchemaError as error:
            raise ContributionError(f"answer: {error}") from error
        return file.tensors[_ANSWER].tobytes(), self.logits.steps(file.tensors)

    def check(self, payload: bytes) -> None:
        """Raise `ContributionError` unless the payload could be an answer."""
        self.weights.check(self.parts(payload)[0])


@dataclass(frozen=True)
class MeansFrame:
    """What sums of anchors' features look like: C classes of d features."""

    classes: int
    width: int
    most: int
    """Images of a class."""

    def encode(self, sums: ScaledIntegers, counts: Integers) -> bytes:
        """Return an answer."""
        return encode_tensors({_SUMS: sums.values, _COUNTS: counts})

    def decode(self, payload: bytes) -> tuple[Integers, Integers]:
        """Return sums (C, d) in whole steps and counts (C,).

        Raises `ContributionError` for any other file, and for sums that no such number of features
        of length 1 can have.
        """
        expected = {
            _SUMS: Expected("int64", (self.classes, self.width)),
            _COUNTS: Expected("int64", (self.classes,)),
        }
        limit = 8 * self.classes * (self.width + 1) + _HEADER_BYTES
        try:
            tensors = read_tensors(payload, expected, limit).tensors
        except SchemaError as error:
            raise ContributionError(f"answer: {error}") from error
        sums, counts = tensors[_SUMS], tensors[_COUNTS]
        if counts.min() < 0 or counts.max() > self.most:
            raise ContributionError(
                f"counts: {counts.min()} to {count_of(counts.max(), 'image')}; give 0 to "
                f"{self.most} per class"
            )
        bounds = counts[:, np.newaxis] << np.int64(-UNIT_EXPONENT)
        if ((sums > bounds) | (sums < -bounds)).any():
            raise ContributionError(
                "sums: larger than so many features of length 1 can be; send what `unit_sums` makes"
            )
        return sums, counts


def model_frame(assignment: DcidAssignment, sent: Arrays, images: int, classes: int) -> ModelFrame:
    """Return what answers of weights look like, of sites that were sent `sent`."""
    settings = assignment.settings
    logits = LogitFrame(images, classes, settings.logits) if settings.aggregates else None
    return ModelFrame(UpdateFrame(sent, settings.upload), logits)


MOST_IMPRINTED = 100_000
"""Images of a class, of one site, in the sum that its row is imprinted by."""


def imprinting_frame(assignment: DcidAssignment, classes: int) -> MeansFrame:
    """Return what answers to `imprint` look like."""
    return MeansFrame(classes, assignment.network.width, MOST_IMPRINTED)


def means_frame(assignment: DcidAssignment, classes: int) -> MeansFrame:
    """Return what answers to `means` look like."""
    return MeansFrame(classes, assignment.network.width, assignment.settings.anchors_per_class)
