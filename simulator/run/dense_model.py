"""An exported model of pixels: trunk and head in two sessions of ONNX Runtime, batch by batch."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from fleetledger.device_agent.inference.installed_model import InferenceSession, SessionSettings
from fleetledger.learning.errors import ImageError
from fleetledger.learning.numerics.preprocessing import preprocess
from fleetledger.schemas.models import FEATURES, SCORES, of_pictures
from fleetledger.schemas.values import ClassName
from fleetledger.simulator.datasets.segmentation.samples import BACKGROUND, value_of
from fleetledger.simulator.errors import DatasetError, RunError
from fleetledger.simulator.features.extraction import cores
from fleetledger.simulator.features.providers import CPU
from fleetledger.simulator.run.evaluation import labels_of, read_manifest

_MOST_SCENES = 8
"""Of a run, however small they are."""
_MOST_SCORES = 1 << 24
"""Of a run of several scenes: 64 MiB as float32. A scene that has more goes alone."""


class DenseModel:
    """The model in a folder, and the seconds that its two files took so far."""

    def __init__(self, folder: Path, class_names: Sequence[ClassName], provider: str) -> None:
        """Load both files; raise `RunError` for a model of something else, or `LoadError`."""
        manifest = read_manifest(folder)
        if manifest.answers != "pixels":
            raise RunError(
                f"{folder}: the model gives whole pictures a class, where the data set has masks; "
                "take a method whose network gives pixels classes"
            )
        self.preprocessing = of_pictures(manifest.preprocessing)
        """How a picture becomes what the network sees."""
        self.provider = provider
        self.seconds = 0.0
        self.threads = cores()
        values = [
            value_of(int(label)) for label in labels_of(manifest.class_names[1:], class_names)
        ]
        self._value_of_row = np.array([BACKGROUND, *values], np.uint8)
        scores = len(manifest.class_names) * int(np.prod(self.preprocessing.size))
        self.batch = max(1, min(_MOST_SCENES, _MOST_SCORES // scores))
        """Scenes of a run."""
        providers = (provider,) if provider == CPU else (provider, CPU)
        settings = SessionSettings(providers, self.threads, self.batch)
        self._trunk = InferenceSession(folder / manifest.frozen.digest, settings)
        self._head = InferenceSession(folder / manifest.head.digest, settings)

    def values(self, pictures: Sequence[Image.Image]) -> NDArray[np.uint8]:
        """Return the value of the best score of each pixel, (n, H, W), of at most `batch` pictures.

        Raises `DatasetError` for a picture that cannot be used, `LoadError` where a run fails.
        """
        try:
            inputs = np.stack([preprocess(picture, self.preprocessing) for picture in pictures])
        except ImageError as error:
            raise DatasetError(f"data: a scene cannot be used: {error}") from error
        began = time.perf_counter()
        scores = self._head.run(SCORES, self._trunk.run(FEATURES, inputs))
        self.seconds += time.perf_counter() - began
        values: NDArray[np.uint8] = self._value_of_row[scores.argmax(axis=1)]
        return values
