"""Answers of a seed's models that are kept from stage to stage."""

from __future__ import annotations

from dataclasses import dataclass

from fleetledger.simulator.metrics.any_answers import AnyAnswers
from fleetledger.simulator.shown_scenes import ShownScenes


@dataclass(frozen=True)
class Kept:
    """The answers of the finished stages."""

    answers: AnyAnswers
    scenes: ShownScenes | None = None
    """Of answers of pixels: what is shown of them."""
