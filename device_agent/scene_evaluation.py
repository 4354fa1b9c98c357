"""What a model of pixels makes of scenes that are never learned from.

A class's result is intersection over union: pixels that are of the class by mask and by model, of
those that are by either. Pixels of 255 are asked of nobody. Scenes are compared at the size of the
model's input, where it answers.

What counts as truth is what the fleet has learned so far: pixels of a class that the model does not
know are background, as in the test masks of class-incremental segmentation.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from fleetledger.device_agent.core.standing_problems import left_out_text
from fleetledger.device_agent.evaluation import EvaluationResult
from fleetledger.device_agent.inference.installed_model import InstalledModel
from fleetledger.device_agent.scene_data import sized_scenes
from fleetledger.device_agent.sources.mask_classes import load_mask_classes
from fleetledger.device_agent.sources.masks import IGNORED
from fleetledger.device_agent.sources.scenes import CLASSES, named_scenes
from fleetledger.device_agent.uncertainty import pixel_uncertainty, require_numbers
from fleetledger.learning.errors import NotFiniteError
from fleetledger.learning.numerics.detection import DetectionRules, ScoringHead
from fleetledger.learning.numerics.preprocessing import preprocess
from fleetledger.schemas.models import of_pictures
from fleetledger.schemas.reports import ClassResult
from fleetledger.schemas.values import ClassName

Counts = npt.NDArray[np.int64]
_NOT_ASKED = -1


@dataclass
class _Seen:
    """Pixels of each row so far: where mask and model agree, and where either says it."""

    intersections: Counts
    unions: Counts
    uncertainties: list[float] = field(default_factory=list)

    def take(self, truth: npt.NDArray[np.int64], said: npt.NDArray[np.intp]) -> None:
        """Count a scene's pixels: rows by mask, `_NOT_ASKED` among them, and rows by model."""
        rows, asked = len(self.unions), truth != _NOT_ASKED
        by_mask, by_model = truth[asked], said[asked]
        both = np.bincount(by_mask[by_mask == by_model], minlength=rows)
        self.intersections += both
        self.unions += np.bincount(by_mask, minlength=rows)
        self.unions += np.bincount(by_model, minlength=rows) - both


def evaluate_scenes(
    model: InstalledModel, folder: Path, head: ScoringHead, detection: DetectionRules | None = None
) -> EvaluationResult:
    """Measure a model of pixels on `<folder>/images` with `<folder>/masks`, class by class.

    A class has a result where any pixel is of it, by mask or by model: only so are the sums of
    several devices what one device with all scenes would count. Uncertainties are those of `head`.
    Scenes that cannot be read, or have no finite scores, are left out. Raises `SourceError` if the
    folder holds no scenes, `LoadError` if the model does not run.
    """
    began = time.perf_counter()
    names = load_mask_classes(folder / CLASSES).names
    scenes = named_scenes(folder)
    rows = _rows(names, model.manifest.class_names)
    number = len(model.manifest.class_names)
    seen = _Seen(np.zeros(number, np.int64), np.zeros(number, np.int64))
    spec = of_pictures(model.manifest.preprocessing)
    left_out: list[str] = []
    for outcome in sized_scenes(scenes, folder, spec, names, preprocess):
        path = folder / scenes[outcome.index].picture
        if outcome.unusable is not None:
            left_out.append(left_out_text(path, outcome.unusable))
        if outcome.pixels is None or outcome.mask is None:
            continue
        scores = model.pixel_scores(outcome.pixels)
        try:
            require_numbers(scores.small)
        except NotFiniteError as error:
            left_out.append(left_out_text(path, str(error)))
            continue
        seen.take(rows[outcome.mask], scores.large.argmax(axis=0))
        if detection is not None:
            seen.uncertainties.append(pixel_uncertainty(scores.small, model, head, detection))
    return EvaluationResult(
        _results(model.manifest.class_names, seen),
        time.perf_counter() - began,
        tuple(left_out),
        uncertainties=tuple(seen.uncertainties),
    )


def _rows(names: Mapping[int, ClassName], class_names: Sequence[ClassName]) -> Counts:
    """Return the model's row for each value of a mask (256,): 0 where it knows no such class."""
    rows = np.zeros(256, np.int64)
    for value, name in names.items():
        if name in class_names:
            rows[value] = class_names.index(name)
    rows[IGNORED] = _NOT_ASKED
    return rows


def _results(class_names: Sequence[ClassName], seen: _Seen) -> dict[ClassName, ClassResult]:
    pairs = zip(class_names, seen.intersections.tolist(), seen.unions.tolist(), strict=True)
    return {name: ClassResult(correct=both, total=either) for name, both, either in pairs if either}
