"""What a scenario's frozen network is, wherever it comes from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from fleetledger.schemas.models import AnyPreprocessing


@dataclass(frozen=True)
class Backbone:
    """A feature extractor: preprocessed images or texts in, a vector of features each out."""

    name: str
    """Under which the ledger knows it."""
    data: bytes = field(repr=False)
    """The ONNX file as it came; `export.backbone.import_backbone` takes it."""
    preprocessing: AnyPreprocessing
    in_torch: Callable[[], Any] | None = field(default=None, repr=False, compare=False)
    """Builds the same network as a module of torch, where torch has it."""
