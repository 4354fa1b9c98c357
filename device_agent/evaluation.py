"""What the model that runs here makes of images that are never learned from."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path

import numpy as np

from fleetledger.device_agent.core.standing_problems import UNANSWERED, left_out_text
from fleetledger.device_agent.images import PictureFile, PictureOutcome, read_pictures
from fleetledger.device_agent.inference.installed_model import InstalledModel, SampleScores
from fleetledger.device_agent.sample_answers import score_each
from fleetledger.device_agent.sources.folder import SUFFIXES, TEXT_SUFFIXES
from fleetledger.device_agent.uncertainty import doubts, head_of, projections_of
from fleetledger.learning.numerics.calibration import add_losses, summed_losses
from fleetledger.learning.numerics.detection import DetectionRules
from fleetledger.learning.numerics.shots import Projections
from fleetledger.schemas.reports import ClassResult
from fleetledger.schemas.values import ClassName


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
    """What the pictures of one class have shown so far."""

    correct: int = 0
    total: int = 0
    losses: list[tuple[int, ...]] = field(default_factory=list)
    uncertainties: list[float] = field(default_factory=list)
    projections: list[Projections] = field(default_factory=list)


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
    classes: dict[ClassName, _Seen] = {}
    left_out: list[str] = []
    text = model.manifest.preprocessing.mode == "text"
    suffixes = TEXT_SUFFIXES if text else SUFFIXES
    for row, name in sorted(enumerate(model.manifest.class_names), key=lambda item: item[1]):
        pictures = [PictureFile(path) for path in _sample_files(folder / name, suffixes)]
        seen = _Seen()
        for scored in _scored(model, pictures, batch, left_out):
            _take(seen, model, row, scored, detection)
        if seen.total:
            classes[name] = seen
    losses = [item for seen in classes.values() for item in seen.losses]
    projections = [item for seen in classes.values() for item in seen.projections]
    return EvaluationResult(
        {name: ClassResult(correct=s.correct, total=s.total) for name, s in classes.items()},
        time.perf_counter() - began,
        tuple(left_out),
        add_losses(losses) if losses else (),
        tuple(value for seen in classes.values() for value in seen.uncertainties),
        tuple(name for name, seen in classes.items() for _ in seen.uncertainties),
        np.concatenate(projections) if projections else None,
    )


def with_lacking(
    measured: EvaluationResult, model: InstalledModel, folder: Path, lacks: Sequence[ClassName]
) -> EvaluationResult:
    """Count the samples of the fleet's classes that the model does not know as wrong."""
    preprocessing, results = model.manifest.preprocessing, dict(measured.results)
    left_out = list(measured.left_out)
    suffixes = TEXT_SUFFIXES if preprocessing.mode == "text" else SUFFIXES
    for name in sorted(set(lacks) - set(model.manifest.class_names)):
        pictures = [PictureFile(path) for path in _sample_files(folder / name, suffixes)]
        told = [_unread(pictures, item) for item in read_pictures(pictures, preprocessing)]
        left_out += filter(None, told)
        readable = told.count("")
        if readable:
            results[name] = ClassResult(correct=0, total=readable)
    return replace(measured, results=results, left_out=tuple(left_out))


def _take(
    seen: _Seen,
    model: InstalledModel,
    row: int,
    scored: SampleScores,
    detection: DetectionRules | None,
) -> None:
    scores = scored.scores
    seen.correct += int((np.argmax(scores, axis=1) == row).sum())
    seen.total += len(scores)
    seen.losses.append(summed_losses(scores, [row] * len(scores)))
    if detection is not None:
        head = head_of(model)
        seen.uncertainties += doubts(scored, head, None, detection)
        part = projections_of(scored, head, detection)
        seen.projections += [] if part is None else [part]


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


def _sample_files(folder: Path, suffixes: AbstractSet[str]) -> list[Path]:
    if not folder.is_dir():
        return []
    return sorted(
        Path(parent, name)
        for parent, _, files in os.walk(folder)
        for name in files
        if not name.startswith(".") and Path(name).suffix.lower() in suffixes
    )
