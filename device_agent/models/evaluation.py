"""Evaluation of the model that runs here on samples that are never learned from."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path

import numpy as np
import numpy.typing as npt

from fleetledger.device_agent.core.standing_problems import UNANSWERED, left_out_text
from fleetledger.device_agent.models.inference.installed_model import InstalledModel, SampleScores
from fleetledger.device_agent.models.sample_answers import score_each
from fleetledger.device_agent.models.uncertainty import (
    doubts,
    head_of,
    pixel_uncertainty,
    projections_of,
    require_numbers,
)
from fleetledger.device_agent.samples.images import PictureFile, PictureOutcome, read_pictures
from fleetledger.device_agent.samples.sources.folder import samples_below
from fleetledger.device_agent.samples.sources.masks import IGNORED, load_mask_classes
from fleetledger.device_agent.samples.sources.scenes import CLASSES, named_scenes
from fleetledger.learning.errors import NotFiniteError
from fleetledger.learning.numerics.calibration import add_losses, summed_losses
from fleetledger.learning.numerics.detection import DetectionRules, ScoringHead
from fleetledger.learning.numerics.shots import Projections
from fleetledger.schemas.models import AnyPreprocessing, of_pictures
from fleetledger.schemas.reports import ClassResult
from fleetledger.schemas.values import ClassName

Counts = npt.NDArray[np.int64]
_NOT_ASKED = -1


@dataclass(frozen=True)
class EvaluationResult:
    """Right answers per class, the seconds that it took, and what else the scores tell."""

    results: dict[ClassName, ClassResult]
    seconds: float
    left_out: tuple[str, ...] = ()
    """Samples that count neither as right nor as wrong, each with the reason: they cannot be read,
    or the model gives no finite numbers for them."""
    losses: tuple[int, ...] = ()
    """Summed losses at the scales of `learning.numerics.calibration`."""
    uncertainties: tuple[float, ...] = ()
    """Value of each picture for the detector, class by class."""
    classes: tuple[ClassName, ...] = ()
    """The class of each of these."""
    projections: Projections | None = None
    """(n, BITS) of these pictures; None where each is its own shot."""


@dataclass
class _Seen:
    """Samples or pixels so far: those that count as right for each row, and those asked of it."""

    correct: Counts
    total: Counts
    losses: list[tuple[int, ...]] = field(default_factory=list)
    uncertainties: list[float] = field(default_factory=list)
    classes: list[ClassName] = field(default_factory=list)
    projections: list[Projections] = field(default_factory=list)

    def take_pixels(self, truth: Counts, said: npt.NDArray[np.intp]) -> None:
        """Count a scene's pixels: rows by mask, `_NOT_ASKED` among them, and rows by model."""
        rows, asked = len(self.total), truth != _NOT_ASKED
        by_mask, by_model = truth[asked], said[asked]
        both = np.bincount(by_mask[by_mask == by_model], minlength=rows)
        self.correct += both
        self.total += np.bincount(by_mask, minlength=rows)
        self.total += np.bincount(by_model, minlength=rows) - both

    def take_samples(
        self, model: InstalledModel, row: int, scored: SampleScores, rules: DetectionRules | None
    ) -> None:
        """Count samples of one class."""
        scores = scored.scores
        self.correct[row] += (np.argmax(scores, axis=1) == row).sum()
        self.total[row] += len(scores)
        self.losses.append(summed_losses(scores, [row] * len(scores)))
        if rules is not None:
            head = head_of(model)
            self.uncertainties += doubts(scored, head, None, rules)
            self.classes += [model.manifest.class_names[row]] * len(scores)
            part = projections_of(scored, head, rules)
            self.projections += [] if part is None else [part]

    def result(
        self, model: InstalledModel, began: float, left_out: Sequence[str]
    ) -> EvaluationResult:
        """Return what came of it; classes of which nothing was asked have no result."""
        counts = zip(self.correct.tolist(), self.total.tolist(), strict=True)
        by_name = dict(zip(model.manifest.class_names, counts, strict=True))
        return EvaluationResult(
            {
                name: ClassResult(correct=correct, total=total)
                for name, (correct, total) in sorted(by_name.items())
                if total
            },
            time.perf_counter() - began,
            tuple(left_out),
            add_losses(self.losses) if self.losses else (),
            tuple(self.uncertainties),
            tuple(self.classes),
            np.concatenate(self.projections) if self.projections else None,
        )


def evaluate(
    model: InstalledModel, folder: Path, batch: int, detection: DetectionRules | None = None
) -> EvaluationResult:
    """Measure the model on `<folder>/<class name>/<image>`, class by class.

    A picture is right if the class of the highest score, over all classes of the model, is its
    folder's name. Folders of classes that the model does not know are left out: nothing could be
    right there. Raises `LoadError` if the model does not run, `OSError` if the folder cannot be
    read.
    """
    began = time.perf_counter()
    seen, left_out = _nothing_seen(model), list[str]()
    for row, name in sorted(enumerate(model.manifest.class_names), key=lambda item: item[1]):
        pictures = _sample_files(folder / name, model.manifest.preprocessing)
        for scored in _scored(model, pictures, batch, left_out):
            seen.take_samples(model, row, scored, detection)
    return seen.result(model, began, left_out)


def evaluate_scenes(
    model: InstalledModel, folder: Path, head: ScoringHead, detection: DetectionRules | None = None
) -> EvaluationResult:
    """Measure a model of pixels on `<folder>/images` with `<folder>/masks`, class by class.

    A class's result is intersection over union: pixels that are of the class by mask and by model,
    of those that are by either. Pixels of 255 are asked of nobody. Scenes are compared at the size
    of the model's input, where it answers. Pixels of a class that the model does not know are
    background, as in the test masks of class-incremental segmentation.

    A class has a result where any pixel is of it, by mask or by model: only so are the sums of
    several devices what one device with all scenes would count. Uncertainties are those of `head`.
    Scenes that cannot be read, or have no finite scores, are left out. Raises `SourceError` if the
    folder holds no scenes, `LoadError` if the model does not run.
    """
    began = time.perf_counter()
    names = load_mask_classes(folder / CLASSES).names
    rows = _rows(names, model.manifest.class_names)
    scenes = named_scenes(folder, names)
    seen, left_out = _nothing_seen(model), list[str]()
    for outcome in read_pictures(scenes, of_pictures(model.manifest.preprocessing)):
        left_out += filter(None, [_unread(scenes, outcome)])
        if outcome.pixels is None or outcome.mask is None:
            continue
        scores = model.pixel_scores(outcome.pixels)
        try:
            require_numbers(scores.small)
        except NotFiniteError as error:
            left_out.append(left_out_text(scenes[outcome.index].path, str(error)))
            continue
        seen.take_pixels(rows[outcome.mask], scores.large.argmax(axis=0))
        if detection is not None:
            seen.uncertainties.append(pixel_uncertainty(scores.small, model, head, detection))
    return seen.result(model, began, left_out)


def _nothing_seen(model: InstalledModel) -> _Seen:
    rows = len(model.manifest.class_names)
    return _Seen(np.zeros(rows, np.int64), np.zeros(rows, np.int64))


def _rows(names: Mapping[int, ClassName], class_names: Sequence[ClassName]) -> Counts:
    """Return the model's row for each value of a mask (256,): 0 where it knows no such class."""
    rows = np.zeros(256, np.int64)
    for value, name in names.items():
        if name in class_names:
            rows[value] = class_names.index(name)
    rows[IGNORED] = _NOT_ASKED
    return rows


def with_lacking(
    measured: EvaluationResult, model: InstalledModel, folder: Path, lacks: Sequence[ClassName]
) -> EvaluationResult:
    """Count the samples of the fleet's classes that the model does not know as wrong."""
    preprocessing, results = model.manifest.preprocessing, dict(measured.results)
    left_out = list(measured.left_out)
    for name in sorted(set(lacks) - set(model.manifest.class_names)):
        pictures = _sample_files(folder / name, preprocessing)
        told = [_unread(pictures, item) for item in read_pictures(pictures, preprocessing)]
        left_out += filter(None, told)
        readable = told.count("")
        if readable:
            results[name] = ClassResult(correct=0, total=readable)
    return replace(measured, results=results, left_out=tuple(left_out))


def _scored(
    model: InstalledModel, pictures: Sequence[PictureFile], batch: int, left_out: list[str]
) -> Iterator[SampleScores]:
    """Yield what the model says of pictures, a batch at a time; `left_out` gets the others."""
    outcomes = read_pictures(pictures, model.manifest.preprocessing)
    while some := list(islice(outcomes, batch)):
        left_out += [told for item in some if (told := _unread(pictures, item))]
        read = [(pictures[item.index], item.pixels) for item in some if item.pixels is not None]
        if not read:
            continue
        found = score_each(model, np.stack([pixels for _, pixels in read]))
        left_out += [
            left_out_text(picture.path, UNANSWERED)
            for (picture, _), answered in zip(read, found.answered, strict=True)
            if not answered
        ]
        if len(found.scored.scores):
            yield found.scored


def _unread(pictures: Sequence[PictureFile], outcome: PictureOutcome) -> str:
    if outcome.unusable is None:
        return ""  # it has its pixels, or it is gone
    return left_out_text(pictures[outcome.index].path, outcome.unusable)


def _sample_files(folder: Path, preprocessing: AnyPreprocessing) -> list[PictureFile]:
    return [PictureFile(path) for path in samples_below(folder, preprocessing)]
