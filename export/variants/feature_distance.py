"""Distance of a variant's features from the reference's, kept to measure each head by.

A head changes with every solve, and the frozen part does not. So samples go through the frozen
parts once, when the variants are made; what came out is one file, and behind a new head it costs a
product of matrices to say what a variant loses.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import safetensors
import safetensors.numpy

from fleetledger.export.errors import ModelFileError
from fleetledger.export.golden import Golden, frozen_features
from fleetledger.export.runtime import LoadedModel
from fleetledger.schemas.variants import VARIANT_NAMES, VariantName

Floats = npt.NDArray[np.float32]
Samples = npt.NDArray[Any]
_REFERENCE = "reference"
_CLASSES = "classes"
_BATCH = 32


@dataclass(frozen=True, eq=False)
class VariantFeatures:
    """Features (N, M) of the same samples: the reference's, and each variant's.

    The law: `VariantFeatures.read(features.file())` holds the same numbers and names.
    """

    reference: Floats
    variants: Mapping[VariantName, Floats]
    golden: Mapping[VariantName, Floats]
    """Of each variant, the features of the lineage's golden batch."""
    class_names: tuple[str, ...]
    """Of each sample, the folder that it lay in; empty where it lay in none."""

    def file(self) -> bytes:
        """Return the bytes of a safetensors file; equal features give equal bytes."""
        names = np.frombuffer(json.dumps(self.class_names).encode("utf-8"), np.uint8)
        tensors: dict[str, npt.NDArray[Any]] = {_REFERENCE: self.reference, _CLASSES: names}
        for name, features in self.variants.items():
            tensors[name] = features
            tensors[f"golden/{name}"] = self.golden[name]
        small = {name: np.ascontiguousarray(_smallest(item)) for name, item in tensors.items()}
        return safetensors.numpy.save(small)

    @classmethod
    def read(cls, data: bytes) -> VariantFeatures:
        """Read what `file` has written; raise `ModelFileError`."""
        try:
            tensors = safetensors.numpy.load(data)
            classes = json.loads(bytes(tensors.pop(_CLASSES)))
            floats = {name: item.astype(np.float32) for name, item in tensors.items()}
            held = [name for name in VARIANT_NAMES if name in floats]
            return cls(
                floats[_REFERENCE],
                {name: floats[name] for name in held},
                {name: floats[f"golden/{name}"] for name in held},
                tuple(classes),
            )
        except (safetensors.SafetensorError, KeyError, ValueError) as error:
            raise ModelFileError(
                f"variants: their features cannot be read ({error}); make the variants again"
            ) from error


def features_of(
    frozen: bytes,
    variants: Mapping[VariantName, bytes],
    input_name: str,
    samples: Samples,
    class_names: Sequence[str],
    golden: Golden,
) -> VariantFeatures:
    """Run samples and golden batch through the reference and each variant."""
    models = {name: LoadedModel(file) for name, file in variants.items()}
    return VariantFeatures(
        _run(LoadedModel(frozen), input_name, samples),
        {name: _run(model, input_name, samples) for name, model in models.items()},
        {name: _run(model, input_name, golden.inputs) for name, model in models.items()},
        tuple(class_names),
    )


def strays(found: Floats, expected: Floats) -> float:
    """Return the length of a difference, as a share of the length of what was expected."""
    length = max(float(np.linalg.norm(expected)), 1e-9)
    return float(np.linalg.norm(found - expected)) / length


def _run(model: LoadedModel, input_name: str, samples: Samples) -> Floats:
    parts = (samples[at : at + _BATCH] for at in range(0, len(samples), _BATCH))
    return np.concatenate([frozen_features(model, input_name, part) for part in parts])


def _smallest(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return features as integers of one byte where they are such; they are of all integer maps."""
    if values.dtype == np.float32 and np.array_equal(values, np.rint(values)):
        for kind in (np.uint8, np.int8):
            limits = np.iinfo(kind)
            if values.min() >= limits.min and values.max() <= limits.max:
                return values.astype(kind)
    return values
