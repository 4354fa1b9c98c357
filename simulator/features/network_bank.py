"""Features of networks that a fleet trains: nothing is known of them before they are frozen."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from fleetledger.schemas.models import FEATURES, AnyPreprocessing
from fleetledger.schemas.values import Digest
from fleetledger.simulator.datasets.images import Split
from fleetledger.simulator.engines.interface import Watch
from fleetledger.simulator.features.extracted import Classes, Source, extract_split
from fleetledger.simulator.features.frozen_features import WholeFeatures
from fleetledger.simulator.features.interface import FrozenFeatures, FrozenModel
from fleetledger.simulator.features.providers import choose_provider


@dataclass(frozen=True)
class NetworkInputs:
    """How pictures are seen, where models run, and where what they give is kept."""

    preprocessing: AnyPreprocessing
    device: str
    cache_folder: Path
    watch: Watch
    classes: Classes = None
    """Labels whose samples will be asked for; None: all."""


class NetworkBank:
    """Runs each frozen model once over all samples; a `FeatureBank`."""

    def __init__(self, split: Split, looks: NetworkInputs) -> None:
        self._split = split
        self._looks = looks

    def frozen(self, model: FrozenModel) -> FrozenFeatures:
        """Return the features of a frozen model, from the cache if they were computed before.

        Raises `BackboneError`, `DatasetError` or `LoadError` naming what is wrong.
        """
        looks = self._looks
        source = Source.of_onnx(
            Digest.of(model.data),
            lambda: (model.data, FEATURES),
            looks.preprocessing,
            choose_provider(looks.device),
        )
        return WholeFeatures(
            extract_split(self._split, source, looks.cache_folder, looks.watch, looks.classes)
        )
