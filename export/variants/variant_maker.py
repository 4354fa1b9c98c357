"""Maker of variants of a frozen part: the backbone changes, the map behind it stays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy.typing as npt

from fleetledger.export.variants.half_precision import halved
from fleetledger.export.variants.quantisation import quantised
from fleetledger.export.variants.split import split_frozen
from fleetledger.schemas.variants import VARIANT_NAMES, VariantName


def made_variants(
    frozen: bytes,
    input_name: str,
    calibration: npt.NDArray[Any],
    names: Sequence[VariantName] = VARIANT_NAMES,
) -> dict[VariantName, bytes]:
    """Return the files of variants; `calibration` are preprocessed samples (N, ...).

    Raises `ModelFileError` where the frozen part has no map, or its backbone cannot be changed.
    """
    split = split_frozen(frozen)
    made: dict[VariantName, bytes] = {}
    for name in names:
        if name == "fp16":
            backbone = halved(split.backbone)
        else:
            backbone = quantised(split.backbone, input_name, calibration)
        made[name] = split.joined_with(backbone)
    return made
