"""Answers of pixels and scenes as a run would leave them, drawn: older classes turn background."""

from __future__ import annotations

import numpy as np

from fleetledger.schemas.values import ClassName
from fleetledger.simulator.datasets.segmentation.masks import show_classes
from fleetledger.simulator.metrics.pixel_answers import PixelAnswers
from fleetledger.simulator.metrics.segmentation import PixelCounts
from fleetledger.simulator.shown_scenes import ShownScenes

SIDE = 24


def fake_scenes(
    stage_of_class: np.ndarray, names: tuple[ClassName, ...], stages: int, random
) -> tuple[PixelAnswers, ShownScenes]:
    """Return what models of some stages said of scenes with squares of every class."""
    classes = len(stage_of_class)
    truth = np.stack([_scene(label, classes, random) for label in range(classes)])
    pictures = np.stack([np.clip(40 * mask + random.integers(0, 30), 0, 255) for mask in truth])
    answers = PixelAnswers.none(stage_of_class)
    said = []
    for stage in range(1, stages + 1):
        seen = np.flatnonzero((stage_of_class >= 1) & (stage_of_class <= stage))
        shown = show_classes(truth, [int(label) for label in seen])
        said.append(_said(shown, stage_of_class, stage, random))
        asked = np.isin(shown, seen + 1).any(axis=(1, 2))
        answers = answers.after(PixelCounts.of(shown[asked], said[-1][asked], classes))
    colour = np.repeat(pictures[:, None].astype(np.uint8), 3, axis=1)
    return answers, ShownScenes(colour, truth, np.stack(said), names)


def _scene(label: int, classes: int, random) -> np.ndarray:
    """Return a mask with squares of a class and the next one, and an edge that nobody is asked."""
    mask = np.zeros((SIDE, SIDE), np.uint8)
    for number, value in enumerate((label + 1, (label + 1) % classes + 1)):
        top, left = random.integers(1, SIDE - 9, 2)
        mask[top : top + 8 - 3 * number, left : left + 8 - 3 * number] = value
    mask[0] = 255
    return mask


def _said(shown: np.ndarray, stage_of_class: np.ndarray, stage: int, random) -> np.ndarray:
    said = np.where(shown == 255, 0, shown)
    age = stage - np.concatenate([[stage], stage_of_class])
    forgotten = random.random(shown.shape) < 0.05 + 0.15 * np.maximum(age, 0)[said]
    newest = int(np.flatnonzero(stage_of_class == stage)[0]) + 1
    wrong = np.where(random.random(shown.shape) < 0.3, newest, 0)
    return np.where(forgotten, wrong, said).astype(np.uint8)
