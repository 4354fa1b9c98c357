"""Accuracy of the model that runs here, on images that are never learned from."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np

from device_agent.images import Picture, read_pictures
from device_agent.inference import Model
from device_agent.sources.folder import SUFFIXES
from schemas.reports import ClassResult
from schemas.values import ClassName


@dataclass(frozen=True)
class Measured:
    """Right answers per class, and the seconds that it took."""

    results: dict[ClassName, ClassResult]
    seconds: float
    unreadable: int = 0
    """Pictures that could not be read; they count neither as right nor as wrong."""


def evaluate(model: Model, folder: Path, batch: int) -> Measured:
    """Measure the model on `<folder>/<class name>/<image>`, class by class.

    A picture is right if the class of the highest score, over all classes of the model, is its
    folder's name. Folders of classes that the model does not know are left out: nothing could be
    right there. Raises `LoadError` if the model does not run, `OSError` if the folder cannot be
    read.
    """
    began = time.perf_counter()
    results: dict[ClassName, ClassResult] = {}
    unreadable = 0
    for row, name in sorted(enumerate(model.manifest.class_names), key=lambda item: item[1]):
        pictures = [Picture(path) for path in _image_files(folder / name)]
        answers = list(_answers(model, pictures, batch))
        unreadable += len(pictures) - len(answers)
        if answers:
            right = sum(1 for answer in answers if answer == row)
            results[name] = ClassResult(correct=right, total=len(answers))
    return Measured(results, time.perf_counter() - began, unreadable)


def _answers(model: Model, pictures: Sequence[Picture], batch: int) -> Iterator[int]:
    """Yield the row of the highest score of each picture that can be read."""
    outcomes = read_pictures(pictures, model.manifest.preprocessing)
    pixels = (outcome.pixels for outcome in outcomes if outcome.pixels is not None)
    while images := list(islice(pixels, batch)):
        yield from np.argmax(model.scores(model.features(images)), axis=1).tolist()


def _image_files(folder: Path) -> list[Path]:
    if not folder.is_dir():
        return []
    return sorted(
        Path(parent, name)
        for parent, _, files in os.walk(folder)
        for name in files
        if not name.startswith(".") and Path(name).suffix.lower() in SUFFIXES
    )
