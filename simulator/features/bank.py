"""Opens the features of a split: extracted once per picture, read from the disk ever after.

The cache folder holds a folder for each model, preprocessing, execution provider and version of
ONNX Runtime (`row_store`); docs/datasets.md tells how to look after it.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fleetledger.export.backbone import import_backbone
from fleetledger.export.rules import STANDARD_DOMAINS, read_model
from fleetledger.schemas.models import FEATURES, AnyPreprocessing
from fleetledger.schemas.values import Digest
from fleetledger.simulator.backbones.backbone import Backbone
from fleetledger.simulator.datasets.images import Split
from fleetledger.simulator.engines.interface import Watch
from fleetledger.simulator.features import extracted
from fleetledger.simulator.features.extraction import AGENT_BATCH, BatchExtractor, Extractor
from fleetledger.simulator.features.frozen_features import (
    FeatureProjection,
    ProjectedFeatures,
    WholeFeatures,
)
from fleetledger.simulator.features.interface import Floats, FrozenFeatures, FrozenModel, Indices
from fleetledger.simulator.features.providers import (
    CPU,
    TORCH_CUDA,
    choose_extraction,
)

GPU_TOLERANCE = 0.02
"""Of the largest h: a GPU adds otherwise in other batches, which may move h by a step or two. On
the CPU all must agree exactly."""


def open_bank(
    split: Split,
    backbone: Backbone,
    cache_folder: Path,
    device: str,
    watch: Watch,
    classes: extracted.Classes = None,
) -> Bank:
    """Return the backbone's features of all samples; extract those that the cache lacks.

    `classes` are the labels whose samples will be asked for, where that is not all of them;
    `device` is `auto`, `cpu` or `cuda`. Raises `BackboneError`, `DatasetError`, `LoadError` or
    `ModelFileError` naming what is wrong and what to do.
    """
    choice = choose_extraction(device, in_torch=backbone.in_torch is not None)
    if choice.remark:
        watch.remark(choice.remark)
    source = _source(backbone, choice.provider)
    rows = extracted.extract_split(split, source, cache_folder, watch, classes)
    opened = BankInputs(
        split, classes, backbone.preprocessing, choice.provider, cache_folder, watch
    )
    return Bank(opened, rows)


def _source(backbone: Backbone, provider: str) -> extracted.Source:
    digest, build = Digest.of(backbone.data), backbone.in_torch
    if provider == TORCH_CUDA and build is not None:
        return extracted.Source(
            digest,
            lambda: _on_torch(build(), backbone.preprocessing),
            backbone.preprocessing,
            provider,
        )
    return extracted.Source.of_onnx(
        digest, lambda: _imported(backbone), backbone.preprocessing, provider
    )


def _on_torch(module: Any, preprocessing: AnyPreprocessing) -> Extractor:  # noqa: ANN401 - of torch
    from fleetledger.simulator.features.torch_extraction import TorchExtractor  # noqa: PLC0415 - an extra

    return TorchExtractor(module, preprocessing, "cuda")


@dataclass(frozen=True)
class BankInputs:
    """How pictures are seen, where models run, and where what they give is kept."""

    split: Split
    classes: extracted.Classes
    """Labels whose samples will be asked for; None: all."""
    preprocessing: AnyPreprocessing
    provider: str
    cache_folder: Path
    watch: Watch

    @property
    def runtime_provider(self) -> str:
        """The provider of ONNX Runtime: of what torch extracts, the processor's."""
        return CPU if self.provider == TORCH_CUDA else self.provider

    def run(self, model: FrozenModel) -> WholeFeatures:
        """Return the features of all samples by a whole model, from the cache if they are there."""
        source = extracted.Source.of_onnx(
            Digest.of(model.data),
            lambda: (model.data, FEATURES),
            self.preprocessing,
            self.runtime_provider,
        )
        return WholeFeatures(
            extracted.extract_split(self.split, source, self.cache_folder, self.watch, self.classes)
        )


class Bank:
    """The features f of every sample; a `FeatureBank`."""

    def __init__(self, opened: BankInputs, rows: extracted.ExtractedRows) -> None:
        self._opened = opened
        self._rows = rows

    def frozen(self, model: FrozenModel) -> FrozenFeatures:
        """Return the features h of a frozen model that begins with the bank's backbone.

        A few samples are run through `model.data` itself. Where the bank's numbers are not the
        same, ONNX Runtime computes the joined file otherwise than its parts; then every sample is
        run through it, and the result is kept on disk too.
        """
        projection = FeatureProjection(model)
        h, seconds = self._probe(projection)
        if self._agree(model, h):
            total = self._rows.store.seconds_per_row + seconds
            return ProjectedFeatures(self._rows, projection, total)
        given = self._opened
        given.watch.phase("frozen.onnx gives other features than its parts: running it for all")
        return given.run(model)

    def _probe(self, projection: FeatureProjection) -> tuple[Floats, float]:
        """Return h of the samples to compare, and the seconds that each took."""
        features = self._rows.train(self._probes())
        started = time.perf_counter()
        h = projection(features)
        return h, (time.perf_counter() - started) / max(1, len(features))

    def _agree(self, model: FrozenModel, h: Floats) -> bool:
        given = self._opened
        extractor = BatchExtractor(
            model.data, FEATURES, given.preprocessing, given.runtime_provider
        )
        samples = [(given.split.train, int(index)) for index in self._probes()]
        expected = np.concatenate([rows for rows, _ in extractor.batches(samples)])
        if given.provider == CPU or h.shape != expected.shape:
            return np.array_equal(h, expected)
        return bool(np.abs(h - expected).max() <= GPU_TOLERANCE * np.abs(expected).max())

    def _probes(self) -> Indices:
        """Return the indices of a batch of training samples from all over the set."""
        known = extracted.of_classes(self._opened.split.train, self._opened.classes)
        places = np.linspace(0, len(known) - 1, min(AGENT_BATCH, len(known)))
        return known[np.unique(places.astype(np.int64))]


def _imported(backbone: Backbone) -> tuple[bytes, str]:
    """Return the backbone as the coordinator imports it, and the name of its output."""
    model = import_backbone(backbone.data, backbone.preprocessing).model
    return model, str(read_model(model, STANDARD_DOMAINS).graph.output[0].name)


class NetworkBank:
    """Runs each frozen model once over all samples; a `FeatureBank`."""

    def __init__(self, inputs: BankInputs) -> None:
        self._inputs = inputs

    def frozen(self, model: FrozenModel) -> FrozenFeatures:
        """Return the features of a frozen model, from the cache if they were computed before.

        Raises `BackboneError`, `DatasetError` or `LoadError` naming what is wrong.
        """
        return self._inputs.run(model)
