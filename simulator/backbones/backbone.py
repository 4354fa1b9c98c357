"""What a scenario's frozen network is, wherever it comes from."""

from __future__ import annotations

from dataclasses import dataclass, field

from schemas.models import AnyPreprocessing


@dataclass(frozen=True)
class Backbone:
    """A feature extractor: preprocessed images or texts in, a vector of features each out."""

    name: str
    """Under which the ledger knows it."""
    data: bytes = field(repr=False)
    """The ONNX file as it came; `export.backbone.import_backbone` takes it."""
    preprocessing: AnyPreprocessing
