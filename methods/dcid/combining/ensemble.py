"""Phase `train` with DCD: logits of all sites become those of their ensemble."""

from __future__ import annotations

from methods.dcid.assignment import ENSEMBLE, DcidAssignment
from methods.dcid.combining.told import Told
from methods.dcid.logits import Integers, LogitFrame, LogitSum
from methods.dcid.messages import began_with, decode_logits, encode_ensemble, shared_images
from methods.dcid.settings import Omega
from methods.training_half import Asked, Combined, Partial, Summing


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
        return EnsembleSum(self.frame, self._told.assignment.settings.omega)

    def combined(self, total: Summing) -> Combined:
        """Return the weights as they were, and the ensemble's logits."""
        assert isinstance(total, EnsembleSum)
        asked = self._told.asked
        began = began_with(self._told.sent(), asked.class_names)
        extras = {**asked.extras, ENSEMBLE: encode_ensemble(total.total.mean(), began)}
        return Combined(asked.weights, extras, total.total.digest(), total.samples, 0.0)


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
