"""Uncertainty of the model that runs here about new images."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np

from fleetledger.device_agent.core.records import ImageToCount
from fleetledger.device_agent.core.requests import Measure
from fleetledger.device_agent.core.standing_problems import UNANSWERED, left_out_text
from fleetledger.device_agent.kinds import PICTURES, kind_of
from fleetledger.device_agent.models.inference.installed_model import (
    Floats,
    Inputs,
    InstalledModel,
    SampleScores,
)
from fleetledger.device_agent.models.sample_answers import score_each
from fleetledger.device_agent.samples.images import PictureFile, read_pictures
from fleetledger.device_agent.samples.sources.folder import picture_files
from fleetledger.device_agent.settings import AgentDetectionSettings
from fleetledger.learning.errors import NotFiniteError
from fleetledger.learning.numerics.detection import DetectionRules, ScoringHead, uncertainty
from fleetledger.learning.numerics.pixel_uncertainty import (
    mean_entropy,
    mean_uncertainty,
    most_uncertain,
)
from fleetledger.learning.numerics.shots import Projections, projected

OF_PIXELS = "relative entropy of all pixels"
"""What `sequential` compares of a model of pixels, in words."""
Files = Callable[[Sequence[ImageToCount], Path], Sequence[PictureFile]]
"""Returns the files of images in a data folder."""


class MeasuredSamples(NamedTuple):
    """Values of the samples that could be read, and what tells which of them are alike."""

    values: tuple[float, ...] = ()
    projections: Projections | None = None
    """(n, BITS) of `learning.numerics.shots`; None where each sample is its own shot."""
    left_out: tuple[str, ...] = ()
    """Images for which the model has no finite numbers, each with the reason."""


def detection_of(settings: AgentDetectionSettings, device: str = "") -> DetectionRules | None:
    """Return when images of a device are a transition; None where nobody looks."""
    if settings.mode == "off":
        return None
    return DetectionRules(device=device, **settings.model_dump())


def head_of(model: InstalledModel) -> ScoringHead:
    """Return the rows and the inverse temperature of a model's head, and whose it is.

    Features of pictures tell which are alike; those of texts have no known angle.
    """
    manifest = model.manifest
    own = ScoringHead(tuple(manifest.class_names), manifest.logit_scale, manifest.digest)
    if not model.of_pixels and kind_of(manifest.preprocessing) is PICTURES:
        own = own._replace(backbone=manifest.lineage)
    return own._replace(measure="novelty") if model.tells_novelty else own


def projections_of(
    scored: SampleScores, head: ScoringHead, rules: DetectionRules | None
) -> Projections | None:
    """Return the projections (n, BITS) of samples; None where no shots are looked for."""
    if rules is None or rules.mode != "sequential" or not head.backbone:
        return None
    return projected(scored.features)


def measuring_head(
    model: InstalledModel, known: ScoringHead | None, rules: DetectionRules | None
) -> ScoringHead:
    """Return the head that measures; `known` is that of the detector's last batch.

    In mode `baseline` that of a model of pixels stays what it was while its rows are among the
    model's: new rows begin as the background's, and count as that
    (`learning.numerics.pixel_uncertainty`), so the history goes on when the model grows. Otherwise
    it is the model's own; for `sequential` it says that all pixels are measured.
    """
    own = head_of(model)
    if not model.of_pixels or rules is None:
        return own
    if rules.mode == "sequential":
        return own._replace(measure=OF_PIXELS)
    if known is None or rules.mode != "baseline":
        return own
    goes_on = len(known.rows) > 1 and known.logit_scale == own.logit_scale
    return known if goes_on and set(known.rows) <= set(own.rows) else own


def measure(
    request: Measure, model: InstalledModel, folder: Path, batch: int, files: Files = picture_files
) -> MeasuredSamples:
    """Return the value of each image that can be read and that the model answers.

    An image that is gone or does not decode is left out: counting tells its owner. Of a raw output
    nothing is known, so there is no value. Raises `LoadError` if the model does not run.
    """
    if model.is_raw:
        return MeasuredSamples()
    outcomes = read_pictures(files(request.images, folder), model.manifest.preprocessing)
    images = (
        (request.images[outcome.index], outcome.pixels)
        for outcome in outcomes
        if outcome.pixels is not None
    )
    head = measuring_head(model, request.known, request.rules)
    if model.of_pixels:
        return _of_pixels(images, model, head, request.rules)
    values: list[float] = []
    parts: list[Projections] = []
    left_out: list[str] = []
    for chosen in _batches(images, batch):
        found = score_each(model, np.stack([pixels for _, pixels in chosen]))
        values += doubts(found.scored, head, request.known, request.rules)
        part = projections_of(found.scored, head, request.rules)
        parts += [] if part is None else [part]
        left_out += [
            left_out_text(image.path, UNANSWERED)
            for (image, _), answered in zip(chosen, found.answered, strict=True)
            if not answered
        ]
    projections = np.concatenate(parts) if parts else None
    return MeasuredSamples(tuple(values), projections, tuple(left_out))


def _of_pixels(
    images: Iterable[tuple[ImageToCount, Inputs]],
    model: InstalledModel,
    head: ScoringHead,
    rules: DetectionRules,
) -> MeasuredSamples:
    values: list[float] = []
    left_out: list[str] = []
    for image, pixels in images:
        try:
            values.append(pixel_uncertainty(model.pixel_scores(pixels).small, model, head, rules))
        except NotFiniteError as error:
            left_out.append(left_out_text(image.path, str(error)))
    return MeasuredSamples(tuple(values), left_out=tuple(left_out))


def doubts(
    scored: SampleScores, head: ScoringHead, known: ScoringHead | None, rules: DetectionRules
) -> list[float]:
    """Return the value of each sample for the detector: its novelty, where the model tells it.

    In the modes of before there was any it is the entropy of its scores, as it is for other models.
    All numbers are finite; see `device_agent.models.sample_answers`.
    """
    if scored.novelty is None or rules.mode != "sequential":
        return list(map(float, uncertainty(scored.scores, head, known, rules)))
    return list(map(float, scored.novelty))


def pixel_uncertainty(
    scores: Floats, model: InstalledModel, head: ScoringHead, rules: DetectionRules
) -> float:
    """Return the value of a picture for the detector, from its small scores (C, h, w).

    For `sequential` it is the mean relative entropy of all pixels, else its `pixel_doubt`. Both are
    at the size of the model's features: border pixels between those are uncertain only because
    scores are resized. Raises `NotFiniteError` if a score is no number.
    """
    if rules.mode != "sequential":
        return pixel_doubt(scores, model, head, rules)
    require_numbers(scores)
    manifest = model.manifest
    logits = manifest.logit_scale * scores[np.newaxis]
    return float(mean_uncertainty(logits, manifest.class_names)[0])


def pixel_doubt(
    scores: Floats, model: InstalledModel, head: ScoringHead, rules: DetectionRules
) -> float:
    """Return how much a model doubts a picture, from its small scores (C, h, w).

    It is the mean relative entropy of the most uncertain tenth of the pixels, in `fixed-rise` the
    mean entropy of all in nats; `head` is that of `measuring_head`. Raises `NotFiniteError` if
    a score is no number.
    """
    require_numbers(scores)
    manifest = model.manifest
    logits = manifest.logit_scale * scores[np.newaxis]
    if rules.mode == "fixed-rise":
        return float(mean_entropy(logits)[0])
    return float(most_uncertain(logits, manifest.class_names, head.rows)[0])


def require_numbers(scores: Floats) -> None:
    """Raise `NotFiniteError` if a score of one sample is NaN or infinite."""
    if not np.isfinite(scores).all():
        raise NotFiniteError(UNANSWERED)


def _batches(
    images: Iterable[tuple[ImageToCount, Inputs]], batch: int
) -> Iterator[list[tuple[ImageToCount, Inputs]]]:
    rest = iter(images)
    while chosen := list(islice(rest, batch)):
        yield chosen
