"""Turns an ONNX feature extractor into the frozen model of a new lineage."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from fleetledger.coordinator.ledger.blobs import BlobStore
from fleetledger.coordinator.models.file_offers import offer_of
from fleetledger.coordinator.paths import blob_folder
from fleetledger.coordinator.settings import CoordinatorSettings, load
from fleetledger.coordinator.topics.lineages.entries import BackboneImported
from fleetledger.export.backbone import ImportedBackbone, import_backbone
from fleetledger.export.frozen import build_frozen
from fleetledger.export.golden import build_golden
from fleetledger.export.judging import JudgingLimits, judged_backbone, judged_golden
from fleetledger.export.judging_messages import BackboneRequest
from fleetledger.export.layers import AS_IT_IS, FeatureChoice, backbone_with_features
from fleetledger.export.model_file import read_model_file
from fleetledger.export.preprocessing_file import load_preprocessing
from fleetledger.methods.registry import statistics_coordinator
from fleetledger.methods.requirements import requirements
from fleetledger.schemas.models import AnyPreprocessing
from fleetledger.schemas.privacy import Noise

GoldenOf = Callable[[bytes, AnyPreprocessing], bytes]
"""From a frozen model to its golden batch."""


def prepare_backbone(
    home: Path,
    file: Path,
    preprocessing_file: Path,
    choice: FeatureChoice = AS_IT_IS,
    *,
    pool: bool = False,
    trusted: bool = False,
) -> BackboneImported:
    """Build the frozen model and its golden batch, store both, and describe them.

    A file that this program made itself is `trusted`: it is not judged by a process of its own.
    Raises `ModelFileError` or `PreprocessingFileError` naming what is wrong.
    """
    settings = load(home)
    preprocessing = load_preprocessing(preprocessing_file)
    data = read_model_file(file)
    golden_of: GoldenOf = build_golden
    if trusted:
        looked = backbone_with_features(data, preprocessing, choice)
        backbone = import_backbone(looked, preprocessing, pool=pool)
    else:
        wanted, limits = BackboneRequest(preprocessing, choice, pool), limits_of(settings)
        backbone = judged_backbone(data, wanted, limits)
        golden_of = partial(judged_golden, limits=limits)
    noise = settings.privacy.noise
    method = OperatorsMethod(
        settings.method.name, settings.method.settings, None if noise is None else noise.told
    )
    imported, files = lineage_of(backbone, file.stem, method, golden_of)
    store = BlobStore(settings.blobs or blob_folder(home))
    for data in files:
        store.put(data)
    return imported


@dataclass(frozen=True)
class OperatorsMethod:
    """A method by name, the operator's settings for it, and noise of privacy."""

    name: str
    settings: Mapping[str, Any]
    noise: Noise | None = None


def lineage_of(
    backbone: ImportedBackbone,
    name: str,
    method: OperatorsMethod,
    golden_of: GoldenOf = build_golden,
) -> tuple[BackboneImported, tuple[bytes, bytes]]:
    """Return what begins a lineage of statistics, with its files: frozen model and golden batch.

    `golden_of` runs the frozen model. Raises `MethodError` and `ModelFileError`.
    """
    side = statistics_coordinator(method.name)
    assignment = side.assign(method.settings, backbone.feature_width, method.noise)
    after = side.feature_map(assignment)
    frozen = build_frozen(backbone.model, after.kind, after.matrix, feature_bits=after.feature_bits)
    golden = golden_of(frozen, backbone.preprocessing)
    imported = BackboneImported(
        name=name,
        frozen=offer_of(frozen),
        golden=offer_of(golden),
        preprocessing=backbone.preprocessing,
        backbone_width=backbone.feature_width,
        feature_width=assignment.columns,
        method=method.name,
        settings=assignment.model_dump(mode="json"),
        max_samples_per_part=assignment.settings.max_samples_per_part,
        min_samples_per_class=assignment.settings.min_samples_per_class,
        remarks=backbone.remarks,
        requires=requirements(method.name),
    )
    return imported, (frozen, golden)


def limits_of(settings: CoordinatorSettings) -> JudgingLimits:
    """Return what a file from elsewhere may take while it is judged."""
    memory = settings.imports.memory_mib
    return JudgingLimits(settings.imports.seconds, None if memory is None else memory << 20)
