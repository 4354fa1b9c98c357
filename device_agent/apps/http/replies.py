"""What the program answers about frames and the model, as JSON."""

from __future__ import annotations

import base64
import io

from PIL import Image

from fleetledger.device_agent.models.inference.answers import (
    Classification,
    Embedding,
    Segmentation,
)
from fleetledger.device_agent.models.inference.loaded import LeasedModel
from fleetledger.runtime.strict import Strict


class ServedModelReply(Strict):
    """The model that answers now."""

    version: int
    manifest: str
    """Digest of its manifest."""
    lineage: str
    """Digest of its frozen part: embeddings of two are not comparable."""
    answers: str
    """`sample`, `pixels` or `raw`."""
    class_names: tuple[str, ...]
    provider: str
    """The execution provider of the frozen part."""
    variant: str | None = None
    """`fp16` or `int8`, where the frozen part is such a variant."""

    @classmethod
    def of(cls, model: LeasedModel) -> ServedModelReply:
        """Return what is said of a model."""
        manifest = model.manifest
        return cls(
            version=manifest.version,
            manifest=str(manifest.digest),
            lineage=str(model.lineage),
            answers=manifest.answers,
            class_names=tuple(str(name) for name in manifest.class_names),
            provider=model.provider,
            variant=model.variant,
        )


class ClassScore(Strict):
    """A class and its probability."""

    name: str
    score: float


class ClassReply(Strict):
    """Classes of a frame, the best first."""

    version: int
    doubt: float
    """As `Classification.doubt`."""
    classes: tuple[ClassScore, ...]

    @classmethod
    def of(cls, answer: Classification, most: int) -> ClassReply:
        """Return the best classes of an answer."""
        pairs = zip(answer.names[:most], answer.scores[:most], strict=True)
        classes = tuple(ClassScore(name=name, score=score) for name, score in pairs)
        return cls(version=answer.version, doubt=answer.doubt, classes=classes)


class MaskReply(Strict):
    """Classes of a frame's pixels."""

    version: int
    doubt: float
    names: tuple[str, ...]
    shares: dict[str, float]
    """Share of the pixels of each class that is there, the largest first."""
    mask: str
    """A PNG of the upright frame, base64: each value is a row of `names`, 255 is nothing."""

    @classmethod
    def of(cls, answer: Segmentation) -> MaskReply:
        """Return a whole answer."""
        return cls(
            version=answer.version,
            doubt=answer.doubt,
            names=answer.names,
            shares=answer.shares,
            mask=base64.b64encode(mask_png(answer)).decode("ascii"),
        )


class FeatureReply(Strict):
    """Features of a frame."""

    version: int
    lineage: str
    shape: tuple[int, ...]
    features: tuple[float, ...]
    """Row by row."""

    @classmethod
    def of(cls, answer: Embedding) -> FeatureReply:
        """Return a whole answer."""
        return cls(
            version=answer.version,
            lineage=answer.lineage,
            shape=answer.features.shape,
            features=tuple(answer.features.ravel().tolist()),
        )


class ErrorReply(Strict):
    """Why there is no answer, and the way out."""

    error: str


def mask_png(answer: Segmentation) -> bytes:
    """Return a mask as a grey PNG."""
    written = io.BytesIO()
    Image.fromarray(answer.mask).save(written, format="PNG")
    return written.getvalue()
