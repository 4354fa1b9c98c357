"""A few samples of this device for self-tests: one per class, of those that the last scan found."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from fleetledger.device_agent.core.inputs import Image
from fleetledger.device_agent.models.inference.installed_model import Inputs
from fleetledger.device_agent.samples.images import PictureFile, read_pictures
from fleetledger.schemas.models import AnyPreprocessing

MAX_SAMPLES = 8


class LocalSamples:
    """Remembers where a few images lie, and reads them when a model is tested."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._paths: list[str] = []

    def remember(self, images: Iterable[Image]) -> None:
        """Choose the first image of each class, up to `MAX_SAMPLES`."""
        first: dict[str, str] = {}
        for image in images:
            first.setdefault(image.class_name, image.path)
        self._paths = list(first.values())[:MAX_SAMPLES]

    def __call__(self, preprocessing: AnyPreprocessing) -> Sequence[Inputs]:
        """Return the chosen images, preprocessed; those that cannot be read are left out."""
        pictures = [PictureFile(self._folder / path) for path in self._paths]
        outcomes = read_pictures(pictures, preprocessing)
        return [outcome.pixels for outcome in outcomes if outcome.pixels is not None]
