"""Each sample stands alone: what a model makes of one changes nothing for the others.

A model may give NaN or infinity for some pictures, such as one that divides by the picture's own
deviation and meets a black one, or may refuse to run on them. One that looks at a batch as a whole
may then give them for all of it, so samples of such a batch are asked about one by one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fleetledger.device_agent.errors import LoadError
from fleetledger.device_agent.models.inference.installed_model import (
    Floats,
    Inputs,
    InstalledModel,
    SampleScores,
)
from fleetledger.runtime.count_words import count_of


@dataclass(frozen=True, eq=False)
class AnsweredSamples:
    """What a model says of those samples that it has finite numbers for."""

    scored: SampleScores
    """Rows of these alone."""
    answered: npt.NDArray[np.bool_]
    """(N,), whether a sample is one of them."""


def each_alone(run: Callable[[Inputs], Floats], samples: Inputs) -> list[Floats | None]:
    """Return what `run` makes of each sample (N, ...): a row, or None where it is not finite.

    A sample on which it fails has None too, as long as it runs on another one. Raises `LoadError`
    where it runs on none.
    """
    try:
        rows = _run(run, samples)
    except LoadError:
        if len(samples) < 2:
            raise
    else:
        if np.isfinite(rows).all() or len(samples) < 2:
            return [row if np.isfinite(row).all() else None for row in rows]
    return _one_by_one(run, samples)


def score_each(model: InstalledModel, samples: Inputs) -> AnsweredSamples:
    """Return what a model says of samples (N, ...), without those that it does not answer.

    Raises `LoadError` where it runs on none.
    """

    def run(some: Inputs) -> Floats:
        scored = model.score_samples(some)
        novelty = () if scored.novelty is None else (scored.novelty[:, np.newaxis],)
        return np.concatenate([scored.scores, *novelty, scored.features], axis=1)

    rows = each_alone(run, samples)
    answered = np.array([row is not None for row in rows], dtype=bool)
    classes, tells = len(model.manifest.class_names), int(model.tells_novelty)
    kept = [row for row in rows if row is not None]
    width = classes + tells + model.manifest.feature_width
    found = np.stack(kept) if kept else np.empty((0, width), np.float32)
    novelty = found[:, classes] if tells else None
    scored = SampleScores(found[:, :classes], novelty, found[:, classes + tells :])
    return AnsweredSamples(scored, answered)


def _one_by_one(run: Callable[[Inputs], Floats], samples: Inputs) -> list[Floats | None]:
    found: list[Floats | None] = []
    failures: list[LoadError] = []
    for number in range(len(samples)):
        try:
            (row,) = _run(run, samples[number : number + 1])
        except LoadError as error:
            failures.append(error)
            found.append(None)
        else:
            found.append(row if np.isfinite(row).all() else None)
    if len(failures) == len(samples):
        raise failures[0]
    return found


def _run(run: Callable[[Inputs], Floats], samples: Inputs) -> Floats:
    rows = run(samples)
    if len(rows) != len(samples):
        raise LoadError(
            f"model: {count_of(len(rows), 'row')} for {count_of(len(samples), 'sample')}; export "
            "it with a free first axis"
        )
    return rows
