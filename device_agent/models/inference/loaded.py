"""One published model in memory, with the lease of its folder; it answers as one version."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from fleetledger.device_agent.core.standing_problems import UNANSWERED
from fleetledger.device_agent.errors import LoadError
from fleetledger.device_agent.home.store.blobs import file_digest
from fleetledger.device_agent.models.inference.answers import (
    Classification,
    Embedding,
    Segmentation,
    Tensors,
)
from fleetledger.device_agent.models.inference.frames import Frame, input_of, picture_of
from fleetledger.device_agent.models.inference.installed_model import (
    Frozen,
    InferenceSession,
    Inputs,
    InstalledModel,
    SessionSettings,
)
from fleetledger.device_agent.models.inference.leases import ModelLease
from fleetledger.device_agent.models.inference.published import (
    FROZEN,
    HEAD,
    read_published,
    variant_in,
)
from fleetledger.device_agent.models.sample_answers import score_each
from fleetledger.device_agent.models.segmentation import segmented
from fleetledger.device_agent.models.uncertainty import head_of, pixel_doubt, require_numbers
from fleetledger.learning.errors import NotFiniteError, SampleError
from fleetledger.learning.numerics.detection import DetectionRules, uncertainty
from fleetledger.learning.numerics.entropy import softmax
from fleetledger.learning.numerics.framing import MAX_ROWS
from fleetledger.runtime.count_words import count_of
from fleetledger.schemas.file_reference import FileReference
from fleetledger.schemas.models import PROBABILITIES, SCORES, AnyPreprocessing


class LeasedModel:
    """Answers of one version, from any thread; its folder stays while this is there."""

    def __init__(
        self,
        lease: ModelLease,
        settings: SessionSettings,
        rules: DetectionRules,
        former: LeasedModel | None = None,
    ) -> None:
        """Load what `lease` holds; a `former` model with the same frozen part lends that.

        Raises `LoadError` for files that are not the manifest's, `MissingError`.
        """
        self.lease = lease
        self.manifest = read_published(lease.folder)
        self._rules = rules
        self.variant = variant_in(lease.folder)
        """The variant of the frozen part; None for the reference."""
        manifest = self.manifest
        pinned = manifest.frozen_with(self.variant)
        self.lineage = pinned.digest
        """Digest of the frozen file that runs: embeddings of two are not comparable."""
        if former is not None and former.lineage == pinned.digest:
            frozen = former.frozen
        else:
            path = _checked(lease.folder / FROZEN, pinned)
            session = InferenceSession(path, settings, pinned.digest)
            frozen = Frozen(session, settings.batch)
        self.frozen: Frozen = frozen
        """What turns frames into features; versions of one lineage share it."""
        head = InferenceSession(_checked(lease.folder / HEAD, manifest.head), settings.of_heads)
        self._model = InstalledModel(manifest, frozen, head, self.variant)
        self._names = tuple(str(name) for name in manifest.class_names)

    @property
    def provider(self) -> str:
        """The execution provider of the frozen part."""
        return self._model.provider

    def classify(self, frames: Sequence[Frame]) -> list[Classification]:
        """Return the classes of frames; raise `SampleError` or `LoadError`."""
        answers = []
        for answer in self.classify_each(frames):
            if isinstance(answer, SampleError):
                raise answer
            answers.append(answer)
        return answers

    def classify_each(self, frames: Sequence[Frame]) -> list[Classification | SampleError]:
        """Return the classes of each frame, or why it has none; raise `LoadError`."""
        self._must_answer("sample", "classify")
        read = [_read(frame, self.manifest.preprocessing) for frame in frames]
        inputs = [item for item in read if not isinstance(item, SampleError)]
        answered = iter(self._predicted(np.stack(inputs)) if inputs else ())
        return [item if isinstance(item, SampleError) else next(answered) for item in read]

    def _predicted(self, inputs: Inputs) -> Iterator[Classification | SampleError]:
        found = score_each(self._model, inputs)
        scores = found.scored.scores
        shares = softmax(scores, self.manifest.logit_scale)
        doubts = uncertainty(scores, head_of(self._model), None, self._rules)
        rows = zip(shares, doubts, strict=True)
        for answered in found.answered:
            if answered:
                share, doubt = next(rows)
                yield self._classification(share, float(doubt))
            else:
                yield NotFiniteError(UNANSWERED)

    def _classification(self, shares: Inputs, doubt: float) -> Classification:
        order = np.argsort(-shares, kind="stable")
        return Classification(
            tuple(self._names[row] for row in order),
            tuple(float(shares[row]) for row in order),
            doubt,
            self.manifest.version,
        )

    def segment(self, frame: Frame) -> Segmentation:
        """Return the class of each pixel of a frame; raise as `classify` does."""
        self._must_answer("pixels", "segment")
        if len(self._names) > MAX_ROWS:
            raise LoadError(
                f"{self._told}: {count_of(len(self._names), 'row')}; a mask has {MAX_ROWS} values"
            )
        mask, scores = segmented(self._model, picture_of(frame))
        doubt = pixel_doubt(scores, self._model, head_of(self._model), self._rules)
        return Segmentation(mask, self._names, doubt, self.manifest.version)

    def embed(self, frame: Frame) -> Embedding:
        """Return the features of a frame; raise as `classify` does."""
        inputs = input_of(frame, self.manifest.preprocessing)[np.newaxis]
        features = self._model.features(inputs)[0]
        require_numbers(features)
        return Embedding(features, str(self.lineage), self.manifest.version)

    def tensors(self, inputs: Inputs) -> Tensors:
        """Return `scores` of preprocessed inputs (N, ...), of samples `probabilities` too.

        A sample for which a model of samples has no finite numbers has NaN alone. Raises
        `LoadError` if the model does not run.
        """
        if self._model.is_raw:
            return {SCORES: np.stack([self._model.raw_output(sample) for sample in inputs])}
        if self._model.of_pixels:
            large = [self._model.pixel_scores(picture).large for picture in inputs]
            return {SCORES: np.stack(large)}
        found = score_each(self._model, inputs)
        scores = np.full((len(inputs), len(self._names)), np.nan, np.float32)
        scores[found.answered] = found.scored.scores
        shares = np.full_like(scores, np.nan)
        shares[found.answered] = softmax(found.scored.scores, self.manifest.logit_scale)
        return {SCORES: scores, PROBABILITIES: shares}

    @property
    def _told(self) -> str:
        return f"model version {self.manifest.version}"

    def _must_answer(self, wanted: str, verb: str) -> None:
        answers = self.manifest.answers
        if answers == wanted:
            return
        ways = {
            "sample": "gives samples a class as a whole: use classify, or `agent predict`",
            "pixels": "gives pixels classes: use segment",
            "raw": "has an output of its own kind: use `loaded().tensors`",
        }
        raise LoadError(f"{verb}: {self._told} {ways[answers]}")


def _read(frame: Frame, spec: AnyPreprocessing) -> Inputs | SampleError:
    try:
        return input_of(frame, spec)
    except SampleError as error:
        return error


def _checked(path: Path, pinned: FileReference) -> Path:
    """Return a path after hashing its file; raise `LoadError` where it is not what is pinned."""
    try:
        found = file_digest(path)
    except OSError as error:
        raise LoadError(f"{path}: cannot be read: {error.strerror}") from error
    if found != pinned.digest:
        raise LoadError(f"{path}: holds other bytes than the manifest says; restart the agent")
    return path
