"""`agent predict`: what the model that runs here says of files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar

from pydantic.dataclasses import dataclass

from fleetledger.device_agent.models.inference.loaded import LeasedModel
from fleetledger.device_agent.samples.sources.folder import samples_below
from fleetledger.learning.errors import SampleError
from fleetledger.runtime.command_report import Report


@dataclass(frozen=True)
class Prediction:
    """What the model says of one file, or why it says nothing."""

    file: str
    names: tuple[str, ...] = ()
    """Classes of the file, the best first; of pixels those that are there, the largest first."""
    scores: tuple[float, ...] = ()
    """Probability of each; of pixels its share of them."""
    doubt: float | None = None
    """How unsure the model is, in the unit of `[detection]`: 0 certain, 1 anything; or nats."""
    fault: str = ""
    """Why the file has no answer."""


class PredictReport(Report):
    """What `agent predict` shows."""

    lines_field: ClassVar[str | None] = "predictions"
    version: int
    """The model's that answered."""
    answers: str
    """What it gives classes: samples or pixels."""
    predictions: tuple[Prediction, ...]

    @property
    def faults(self) -> int:
        """How many files have no answer."""
        return sum(bool(item.fault) for item in self.predictions)

    def above(self) -> Iterator[str]:
        """Return a line for each file, and by which model."""
        yield from map(_line, self.predictions)
        yield f"by model version {self.version}"


def predict(model: LeasedModel, files: Sequence[Path], most: int) -> PredictReport:
    """Return at most `most` classes of each file, all by one version; raise `ModelError`."""
    return PredictReport(
        version=model.manifest.version,
        answers=model.manifest.answers,
        predictions=tuple(_predict(model, file, most) for file in _samples(model, files)),
    )


def _samples(model: LeasedModel, files: Sequence[Path]) -> Iterator[Path]:
    """Return the samples in files; a file that has none stands for itself, and is said to."""
    for file in files:
        yield from samples_below(file, model.manifest.preprocessing) or [file]


def _predict(model: LeasedModel, file: Path, most: int) -> Prediction:
    try:
        if model.manifest.answers == "pixels":
            seen = model.segment(file)
            names, scores, doubt = tuple(seen.shares), tuple(seen.shares.values()), seen.doubt
        else:
            (found,) = model.classify([file])
            names, scores, doubt = found.names, found.scores, found.doubt
    except SampleError as error:
        return Prediction(str(file), fault=_named(file, str(error)))
    return Prediction(str(file), names[:most], scores[:most], doubt)


def _named(file: Path, fault: str) -> str:
    return fault if fault.startswith(str(file)) else f"{file}: {fault}"


def _line(item: Prediction) -> str:
    if item.doubt is None:
        return item.fault
    classes = zip(item.names, item.scores, strict=True)
    told = ", ".join(f"{name} {100 * score:.1f} %" for name, score in classes)
    return f"{item.file}: {told} (doubt {item.doubt:.2f})"
