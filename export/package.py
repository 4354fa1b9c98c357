"""Packs one version of the model: head, golden scores, parity and manifest. Bytes in, bytes out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from export.errors import ModelFileError, ParityError
from export.golden import Golden, frozen_features, read_golden, write_golden_scores
from export.graph import output_width
from export.head import DEFAULT_LOGIT_SCALE, build_head, head_scores
from export.parity import DEFAULT_TOLERANCE, measure_parity, require_parity
from export.rules import STANDARD_DOMAINS, check
from export.runtime import LoadedModel
from schemas.models import FileReference, Manifest, Parity, Preprocessing
from schemas.values import ClassName, Digest

DEFAULT_DEVICE_TOLERANCE = 0.05
"""A device's processor rounds the backbone otherwise; a flipped step of the grid moves a score."""


@dataclass(frozen=True)
class Lineage:
    """What all heads of a lineage share; made once, when a backbone is imported."""

    frozen: bytes
    golden: bytes
    preprocessing: Preprocessing
    domains: frozenset[str] = STANDARD_DOMAINS


@dataclass(frozen=True)
class SolvedHead:
    """A solved head: weights (C, M), one row per class name, and where it stands in the ledger."""

    version: int
    method: str
    class_names: tuple[ClassName, ...]
    weights: npt.NDArray[Any]
    ledger_index: int
    created_ns: int
    logit_scale: float = DEFAULT_LOGIT_SCALE


@dataclass(frozen=True)
class ExportRules:
    """Largest differences of a score: here at the export, and in a device's self-test."""

    parity_tolerance: float = DEFAULT_TOLERANCE
    device_tolerance: float = DEFAULT_DEVICE_TOLERANCE


DEFAULT_RULES = ExportRules()


@dataclass(frozen=True)
class ExportedModel:
    """A manifest and, by digest, the bytes of the files that it pins."""

    manifest: Manifest
    files: Mapping[Digest, bytes] = field(repr=False)


def export_model(
    lineage: Lineage,
    solved: SolvedHead,
    rules: ExportRules = DEFAULT_RULES,
    extra_features: npt.NDArray[np.float32] | None = None,
) -> ExportedModel:
    """Return the exported model; equal arguments give equal bytes on the same runtime.

    Parity is measured on the golden batch, through the frozen model, and on `extra_features`
    (N, M) where given. Raises `ModelFileError` if head, names and frozen model do not fit together
    and `ParityError` if the pair strays from the coordinator's prediction.
    """
    _check_fit(lineage, solved)
    golden = read_golden(lineage.golden)
    head = build_head(solved.weights, solved.logit_scale)
    features = _features(lineage, golden)
    scores = head_scores(head, golden.features)
    _self_test(head_scores(head, features), scores, rules.device_tolerance)
    if extra_features is not None:
        features = np.concatenate([features, extra_features])
    parity = measure_parity(head, solved.weights, features)
    require_parity(parity, rules.parity_tolerance)
    files = (lineage.frozen, head, lineage.golden, write_golden_scores(scores))
    manifest = _manifest(lineage, solved, files, parity, rules)
    return ExportedModel(manifest, {Digest.of(data): data for data in files})


def _check_fit(lineage: Lineage, solved: SolvedHead) -> None:
    width = output_width(check(lineage.frozen, lineage.domains))
    expected = (len(solved.class_names), width)
    if solved.weights.shape != expected:
        raise ModelFileError(
            f"weights: shape {solved.weights.shape} for {expected[0]} class names and {width} "
            f"features of the frozen model; give {expected}"
        )


def _features(lineage: Lineage, golden: Golden) -> npt.NDArray[np.float32]:
    name = lineage.preprocessing.input_name
    return frozen_features(LoadedModel(lineage.frozen), name, golden.inputs)


def _self_test(
    scores: npt.NDArray[np.float32], golden: npt.NDArray[np.float32], tolerance: float
) -> None:
    """Do here what every device will do, so that no model leaves that all would refuse."""
    difference = float(np.abs(scores - golden).max())
    if difference > tolerance:
        raise ParityError(
            f"golden scores: the pair strays by {difference:.3g} from them, more than "
            f"{tolerance:.3g}; make the golden batch again from this frozen model"
        )


def _manifest(
    lineage: Lineage,
    solved: SolvedHead,
    files: tuple[bytes, bytes, bytes, bytes],
    parity: Parity,
    rules: ExportRules,
) -> Manifest:
    frozen, head, golden, scores = (FileReference.of(data) for data in files)
    return Manifest(
        version=solved.version,
        method=solved.method,
        lineage=frozen.digest,
        frozen=frozen,
        head=head,
        golden=golden,
        golden_scores=scores,
        class_names=solved.class_names,
        feature_width=solved.weights.shape[1],
        logit_scale=solved.logit_scale,
        preprocessing=lineage.preprocessing,
        parity=parity,
        tolerance=rules.device_tolerance,
        ledger_index=solved.ledger_index,
        created_ns=solved.created_ns,
    )
