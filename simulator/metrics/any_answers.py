"""Answers of one seed of either kind: of samples, or of pixels."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from fleetledger.simulator.metrics.answers import Answers
from fleetledger.simulator.metrics.npz_files import names_in_npz
from fleetledger.simulator.metrics.pixel_answers import CONFUSION, PixelAnswers
from fleetledger.simulator.shown_scenes import ShownScenes

AnyAnswers = Answers | PixelAnswers


def load_answers(path: Path) -> AnyAnswers:
    """Read what either wrote. Raises `MetricsError` when the file is missing or another."""
    return PixelAnswers.load(path) if CONFUSION in names_in_npz(path) else Answers.load(path)


@dataclass(frozen=True)
class Kept:
    """The answers of the finished stages."""

    answers: AnyAnswers
    scenes: ShownScenes | None = None
    """Of answers of pixels: what is shown of them."""
