"""Opinion of a model on one image, and whether it is right."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from fleetledger.device_agent.models.comparison.counts import ModelReply
from fleetledger.device_agent.models.comparison.images import ComparedImage
from fleetledger.device_agent.models.inference.installed_model import Floats, Inputs, InstalledModel
from fleetledger.device_agent.models.uncertainty import require_numbers
from fleetledger.device_agent.samples.images import ChangedError, Mask, PictureFile, read_sample
from fleetledger.device_agent.samples.sources.masks import IGNORED, load_mask_classes
from fleetledger.device_agent.samples.sources.scenes import CLASSES
from fleetledger.learning.errors import SampleError
from fleetledger.learning.numerics.entropy import entropy, softmax
from fleetledger.learning.numerics.pixel_uncertainty import mean_entropy
from fleetledger.schemas.models import BACKGROUND
from fleetledger.schemas.values import ClassName

RIGHT_OVERLAP = 0.5
"""Intersection over union from which a class of a scene is right."""
ALIKE_PIXELS = 0.9
"""Share of the pixels from which two models say the same of a picture."""
_NOTHING = ClassName(BACKGROUND)


@dataclass(frozen=True, eq=False)
class ReadSample:
    """An image as one model takes it."""

    inputs: Inputs
    mask: Mask | None = None
    """Of a scene, (H, W), with the values of the file."""


@dataclass(frozen=True, eq=False)
class ModelOpinion:
    """What a model says of an image."""

    reply: ModelReply
    said: Any
    """Of a sample its class, of a picture the classes of its pixels (H, W), by a common number."""


def read_compared(image: ComparedImage, model: InstalledModel) -> ReadSample | None:
    """Read an image, or a scene, as a model takes it; None where that cannot be done."""
    try:
        file = PictureFile(image.path, mask=image.mask)
        return ReadSample(*read_sample(file, model.manifest.preprocessing))
    except (SampleError, ChangedError):
        return None


class AskedModel(Protocol):
    """A model that is asked about images, one at a time."""

    def prepare(self, image: ComparedImage) -> ReadSample | None:
        """Read an image; None where that cannot be done."""

    def golden(self, inputs: Inputs) -> float:
        """Return the seconds that a sample of the golden batch takes."""

    def ask(self, image: ComparedImage, prepared: ReadSample) -> ModelOpinion:
        """Return what the model says; raise `LoadError` or `NotFiniteError` where it does not."""


class SampleModel:
    """A model that gives samples a class as a whole."""

    def __init__(self, model: InstalledModel) -> None:
        self._model = model
        self._names = tuple(model.manifest.class_names)

    def prepare(self, image: ComparedImage) -> ReadSample | None:
        """Read an image; None where that cannot be done."""
        return read_compared(image, self._model)

    def golden(self, inputs: Inputs) -> float:
        """Return the seconds that a sample of the golden batch takes."""
        return self._timed(inputs)[1]

    def ask(self, image: ComparedImage, prepared: ReadSample) -> ModelOpinion:
        """Return what the model says; raise `LoadError` or `NotFiniteError` where it does not."""
        scores, seconds = self._timed(prepared.inputs)
        require_numbers(scores)
        said = self._names[int(np.argmax(scores[0]))]
        nats = float(entropy(softmax(scores, self._model.manifest.logit_scale))[0])
        right = {} if image.class_name is None else {image.class_name: said == image.class_name}
        return ModelOpinion(ModelReply(right, nats, seconds), said)

    def _timed(self, inputs: Inputs) -> tuple[Floats, float]:
        began = time.perf_counter()
        scores = self._model.predict(inputs[np.newaxis])
        return scores, time.perf_counter() - began


class PixelModel:
    """A model that gives pixels a class; `names` are all that either of the two knows."""

    def __init__(self, model: InstalledModel, folder: Path | None, names: tuple[str, ...]) -> None:
        self._model = model
        self._rows = tuple(model.manifest.class_names)
        self._common = np.array([names.index(name) for name in self._rows])
        self._known = frozenset(names)
        self._values: Mapping[int, ClassName] = (
            {0: _NOTHING, **load_mask_classes(folder / CLASSES).names} if folder is not None else {}
        )

    def prepare(self, image: ComparedImage) -> ReadSample | None:
        """Read a picture, or a scene; None where that cannot be done."""
        return read_compared(image, self._model)

    def golden(self, inputs: Inputs) -> float:
        """Return the seconds that a picture of the golden batch takes."""
        began = time.perf_counter()
        self._model.pixel_scores(inputs)
        return time.perf_counter() - began

    def ask(self, _image: ComparedImage, prepared: ReadSample) -> ModelOpinion:
        """Return what the model says; raise `LoadError` or `NotFiniteError` where it does not."""
        began = time.perf_counter()
        scores = self._model.pixel_scores(prepared.inputs)
        seconds = time.perf_counter() - began
        require_numbers(scores.small)
        logits = self._model.manifest.logit_scale * scores.small[np.newaxis]
        rows = scores.large.argmax(axis=0)
        right = {} if prepared.mask is None else self._right(prepared.mask, rows)
        reply = ModelReply(right, float(mean_entropy(logits)[0]), seconds)
        return ModelOpinion(reply, self._common[rows])

    def _right(self, mask: Mask, rows: npt.NDArray[np.intp]) -> dict[ClassName, bool]:
        """Return for each class of a mask whether the model overlaps with it by enough."""
        truth = np.zeros(256, np.int64)
        shown = {name: value for value, name in self._values.items() if name in self._known}
        for name, value in shown.items():
            truth[value] = self._rows.index(name) if name in self._rows else 0
        asked, wanted = mask != IGNORED, truth[mask]
        found: dict[ClassName, bool] = {}
        for name, value in shown.items():
            if not (mask == value).any():
                continue
            row = self._rows.index(name) if name in self._rows else None
            found[name] = row is not None and _overlap(wanted == row, rows == row, asked)
        return found


def agree(active: ModelOpinion, candidate: ModelOpinion) -> bool | None:
    """Whether two models say the same of an image; None where that cannot be compared."""
    if isinstance(active.said, str):
        return bool(active.said == candidate.said)
    if active.said.shape != candidate.said.shape:
        return None
    return bool((active.said == candidate.said).mean() >= ALIKE_PIXELS)


def common_names(*models: InstalledModel) -> tuple[ClassName, ...]:
    """Return all class names that models know, sorted."""
    known: Iterable[ClassName] = {name for model in models for name in model.manifest.class_names}
    return tuple(sorted(known))


def _overlap(
    wanted: npt.NDArray[np.bool_], said: npt.NDArray[np.bool_], asked: npt.NDArray[np.bool_]
) -> bool:
    union = int(((wanted | said) & asked).sum())
    both = int((wanted & said & asked).sum())
    return union > 0 and both >= RIGHT_OVERLAP * union
