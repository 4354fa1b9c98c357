"""Turns an ONNX feature extractor into the frozen model of a new lineage."""

from __future__ import annotations

from pathlib import Path

from coordinator.core.entries import BackboneImported
from coordinator.errors import BackboneFileError
from coordinator.ledger.blobs import BlobStore
from coordinator.offering import offer_of
from coordinator.paths import blob_folder
from coordinator.settings import load
from export.backbone import import_backbone
from export.frozen import build_frozen
from export.golden import build_golden
from export.preprocessing_file import load_preprocessing
from methods.registry import load_coordinator


def prepare_backbone(
    home: Path, file: Path, preprocessing_file: Path, *, pool: bool = False
) -> BackboneImported:
    """Build the frozen model and its golden batch, store both, and describe them.

    Raises `BackboneFileError`, `ModelFileError` or `PreprocessingFileError` naming what is wrong.
    """
    settings = load(home)
    preprocessing = load_preprocessing(preprocessing_file)
    backbone = import_backbone(read_file(file), preprocessing, pool=pool)
    half = load_coordinator(settings.method.name)
    assignment = half.assign(settings.method.settings, backbone.feature_width)
    after = half.feature_map(assignment)
    frozen = build_frozen(backbone.model, after.kind, after.matrix, feature_bits=after.feature_bits)
    golden = build_golden(frozen, preprocessing)
    store = BlobStore(settings.blobs or blob_folder(home))
    for data in (frozen, golden):
        store.put(data)
    return BackboneImported(
        name=file.stem,
        frozen=offer_of(frozen),
        golden=offer_of(golden),
        preprocessing=preprocessing,
        backbone_width=backbone.feature_width,
        feature_width=assignment.columns,
        method=settings.method.name,
        settings=assignment.model_dump(mode="json"),
        max_samples_per_part=assignment.settings.max_samples_per_part,
        min_samples_per_class=assignment.settings.min_samples_per_class,
    )


def read_file(file: Path) -> bytes:
    """Return the bytes of an ONNX file; raise `BackboneFileError` where it cannot be read."""
    try:
        return file.read_bytes()
    except OSError as error:
        raise BackboneFileError(
            f"{file}: cannot be read: {error.strerror}; give an ONNX file"
        ) from error
