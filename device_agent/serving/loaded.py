"""One published model in memory, with the lease of its folder; it answers as one version."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from device_agent.errors import LoadError
from device_agent.inference import (
    Frozen,
    InferenceSession,
    Inputs,
    InstalledModel,
    SessionSettings,
)
from device_agent.measuring import head_of, pixel_doubt, require_numbers
from device_agent.segmenting import segmented
from device_agent.serving.answers import Classification, Embedding, Segmentation, Tensors
from device_agent.serving.frames import Frame, input_of, picture_of
from device_agent.serving.leases import ModelLease
from device_agent.serving.published import FROZEN, HEAD, read_published, variant_in
from device_agent.store.blobs import file_digest
from learning.numerics.detection import DetectionRules, uncertainty
from learning.numerics.entropy import softmax
from learning.numerics.framing import MAX_ROWS
from schemas.file_reference import FileReference
from schemas.models import PROBABILITIES, SCORES


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
        """Return the classes of frames; raise `SampleError`, `LoadError` or `FeatureError`."""
        self._must_answer("sample", "classify")
        if not frames:
            return []
        manifest = self.manifest
        inputs = np.stack([input_of(frame, manifest.preprocessing) for frame in frames])
        scores = self._model.classify(inputs)
        require_numbers(scores)
        shares = softmax(scores, manifest.logit_scale)
        doubts = uncertainty(scores, head_of(self._model), None, self._rules)
        return [
            self._classification(row, float(doubt))
            for row, doubt in zip(shares, doubts, strict=True)
        ]

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
            raise LoadError(f"{self._told}: {len(self._names)} rows; a mask has {MAX_ROWS} values")
        mask, scores = segmented(self._model, picture_of(frame))
        doubt = pixel_doubt(scores, self._model, head_of(self._model), self._rules)
        return Segmentation(mask, self._names, doubt, self.manifest.version)

    def embed(self, frame: Frame) -> Embedding:
        """Return the features of a frame; raise as `classify` does."""
        inputs = input_of(frame, self.manifest.preprocessing)[np.newaxis]
        features = self._model.features(inputs)[0]
        return Embedding(features, str(self.lineage), self.manifest.version)

    def tensors(self, inputs: Inputs) -> Tensors:
        """Return `scores` of preprocessed inputs (N, ...), of samples `probabilities` too.

        Raises `LoadError` if the model does not run.
        """
        if self._model.is_raw:
            return {SCORES: np.stack([self._model.raw_output(sample) for sample in inputs])}
        if self._model.of_pixels:
            large = [self._model.pixel_scores(picture).large for picture in inputs]
            return {SCORES: np.stack(large)}
        scores = self._model.classify(inputs)
        shares = softmax(scores, self.manifest.logit_scale).astype(np.float32)
        return {SCORES: scores, PROBABILITIES: shares}

    @property
    def _told(self) -> str:
        return f"model version {self.manifest.version}"

    def _must_answer(self, wanted: str, verb: str) -> None:
        answers = self.manifest.answers
        if answers == wanted:
            return
        ways = {
            "sample": "gives samples a class as a whole: use classify",
            "pixels": "gives pixels classes: use segment",
            "raw": "has an output of its own kind: use `loaded().tensors`",
        }
        raise LoadError(f"{verb}: {self._told} {ways[answers]}")


def _checked(path: Path, pinned: FileReference) -> Path:
    """Return a path after hashing its file; raise `LoadError` where it is not what is pinned."""
    try:
        found = file_digest(path)
    except OSError as error:
        raise LoadError(f"{path}: cannot be read: {error.strerror}") from error
    if found != pinned.digest:
        raise LoadError(f"{path}: holds other bytes than the manifest says; restart the agent")
    return path
