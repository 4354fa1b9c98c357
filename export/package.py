"""Packs one version of the model: head, golden scores, parity and manifest. Bytes in, bytes out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from fleetledger.export.errors import ModelFileError, ParityError
from fleetledger.export.golden import Golden, frozen_features, read_golden, write_golden_scores
from fleetledger.export.graph import output_width
from fleetledger.export.head import DEFAULT_LOGIT_SCALE, Head, RowsHead, head_scores
from fleetledger.export.parity import (
    DEFAULT_TOLERANCE,
    measure_parity,
    require_novelty,
    require_parity,
)
from fleetledger.export.rules import STANDARD_DOMAINS, check
from fleetledger.export.runtime import LoadedModel
from fleetledger.export.variants.feature_distance import VariantFeatures
from fleetledger.export.variants.gate import (
    NO_VARIANTS,
    HeadToJudge,
    JudgedVariants,
    VariantFile,
    judge,
)
from fleetledger.schemas.count_words import count_of
from fleetledger.schemas.file_reference import FileReference
from fleetledger.schemas.models import Answers, AnyPreprocessing, Manifest, Parity
from fleetledger.schemas.values import ClassName, Digest

DEFAULT_DEVICE_TOLERANCE = 0.05
"""A device's processor rounds the backbone otherwise; a flipped step of the grid moves a score."""


@dataclass(frozen=True, eq=False)
class LineageVariants:
    """The variants of a lineage's frozen part, and what each head is measured behind them by."""

    files: tuple[VariantFile, ...]
    features: VariantFeatures


@dataclass(frozen=True)
class Lineage:
    """What all heads of a lineage share; made once, when a backbone is imported."""

    frozen: bytes
    golden: bytes
    preprocessing: AnyPreprocessing
    domains: frozenset[str] = STANDARD_DOMAINS
    variants: LineageVariants | None = None


@dataclass(frozen=True)
class ModelFacts:
    """What a manifest says of a version, and where it stands in the ledger."""

    version: int
    method: str
    class_names: tuple[ClassName, ...]
    """In the order of the scores."""
    ledger_index: int
    created_ns: int
    logit_scale: float = DEFAULT_LOGIT_SCALE


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

    @property
    def facts(self) -> ModelFacts:
        """Everything but the weights."""
        return ModelFacts(
            version=self.version,
            method=self.method,
            class_names=self.class_names,
            ledger_index=self.ledger_index,
            created_ns=self.created_ns,
            logit_scale=self.logit_scale,
        )


@dataclass(frozen=True)
class ExportRules:
    """Largest differences of a score: here at the export, and in a device's self-test."""

    parity_tolerance: float = DEFAULT_TOLERANCE
    device_tolerance: float = DEFAULT_DEVICE_TOLERANCE
    relative: bool = False
    """Whether they grow with the largest golden score, where that is above 1: a network's scores
    have no scale of their own."""

    def for_scores(self, scores: npt.NDArray[np.float32]) -> ExportRules:
        """Return the limits of a model with these golden scores."""
        if not self.relative:
            return self
        largest = max(1.0, float(np.abs(scores).max()))
        return replace(
            self,
            parity_tolerance=self.parity_tolerance * largest,
            device_tolerance=self.device_tolerance * largest,
        )


DEFAULT_RULES = ExportRules()


@dataclass(frozen=True, eq=False)
class PackedHead:
    """A head as a file, with its golden scores and what was measured of it."""

    file: bytes
    golden_scores: bytes
    feature_width: int
    parity: Parity
    tolerance: float
    """Of a device's self-test."""
    answers: Answers = "sample"
    judged: JudgedVariants = NO_VARIANTS
    """Which variants of the frozen part may stand before it."""


@dataclass(frozen=True)
class ExportedModel:
    """A manifest and, by digest, the bytes of the files that it pins, those of variants apart."""

    manifest: Manifest
    files: Mapping[Digest, bytes] = field(repr=False)
    left_out: tuple[str, ...] = ()
    """Why variants of the frozen part are not in the manifest, a sentence each."""


def export_model(
    lineage: Lineage,
    solved: SolvedHead,
    rules: ExportRules = DEFAULT_RULES,
    extra_features: npt.NDArray[np.float32] | None = None,
) -> ExportedModel:
    """Return the model of a solved head; `pack_model` says the rest."""
    return pack_model(lineage, solved.facts, RowsHead(solved.weights), rules, extra_features)


def pack_model(
    lineage: Lineage,
    facts: ModelFacts,
    head: Head,
    rules: ExportRules = DEFAULT_RULES,
    extra_features: npt.NDArray[np.float32] | None = None,
) -> ExportedModel:
    """Return the exported model; equal arguments give equal bytes on the same runtime.

    Parity is measured on the golden batch, through the frozen model, and on `extra_features`
    (N, M) where given. Raises `ModelFileError` if head, names and frozen model do not fit together
    and `ParityError` if the pair strays from the coordinator's prediction.
    """
    width = _check_fit(lineage, facts, head)
    golden = read_golden(lineage.golden)
    file = head.file(facts.logit_scale)
    features = _features(lineage, golden)
    scores = head_scores(file, golden.features)
    limits = rules.for_scores(scores)
    require_golden(head_scores(file, features), scores, limits.device_tolerance)
    if extra_features is not None:
        features = np.concatenate([features, extra_features])
    parity = measure_parity(file, head, features)
    require_parity(parity, limits.parity_tolerance)
    if isinstance(head, RowsHead) and head.novelty is not None:
        require_novelty(file, head.novelty, features)
    written = write_golden_scores(scores)
    judged = _judged(lineage, golden, HeadToJudge(file, facts.class_names, limits.device_tolerance))
    packed = PackedHead(file, written, width, parity, limits.device_tolerance, "sample", judged)
    return described(lineage, facts, packed)


def described(lineage: Lineage, facts: ModelFacts, head: PackedHead) -> ExportedModel:
    """Return a model whose files are made and measured: its manifest beside them."""
    files = (lineage.frozen, head.file, lineage.golden, head.golden_scores)
    frozen, scored, batch, scores = (FileReference.of(data) for data in files)
    manifest = Manifest(
        version=facts.version,
        method=facts.method,
        lineage=frozen.digest,
        frozen=frozen,
        head=scored,
        golden=batch,
        golden_scores=scores,
        class_names=facts.class_names,
        feature_width=head.feature_width,
        logit_scale=facts.logit_scale,
        preprocessing=lineage.preprocessing,
        answers=head.answers,
        parity=head.parity,
        tolerance=head.tolerance,
        variants=head.judged.admitted,
        ledger_index=facts.ledger_index,
        created_ns=facts.created_ns,
    )
    pinned = {Digest.of(data): data for data in files}
    return ExportedModel(manifest, pinned, head.judged.left_out)


def _judged(lineage: Lineage, golden: Golden, head: HeadToJudge) -> JudgedVariants:
    variants = lineage.variants
    if variants is None:
        return NO_VARIANTS
    return judge(variants.files, variants.features, head, golden)


def _check_fit(lineage: Lineage, facts: ModelFacts, head: Head) -> int:
    """Return the number of features; raise `ModelFileError` if the head takes others."""
    width = output_width(check(lineage.frozen, lineage.domains))
    expected = (len(facts.class_names), width)
    if head.shape != expected:
        raise ModelFileError(
            f"weights: shape {head.shape} for {count_of(expected[0], 'class name')} and {width} "
            f"features of the frozen model; give {expected}"
        )
    return width


def _features(lineage: Lineage, golden: Golden) -> npt.NDArray[np.float32]:
    name = lineage.preprocessing.input_name
    return frozen_features(LoadedModel(lineage.frozen), name, golden.inputs)


def require_golden(
    scores: npt.NDArray[np.float32], golden: npt.NDArray[np.float32], tolerance: float
) -> None:
    """Do here what every device will do, so that no model leaves that all would refuse.

    Raises `ParityError` where `scores` stray from the `golden` ones by more than `tolerance`.
    """
    difference = float(np.abs(scores - golden).max())
    if difference > tolerance:
        raise ParityError(
            f"golden scores: the pair strays by {difference:.3g} from them, more than "
            f"{tolerance:.3g}; make the golden batch again from this frozen model"
        )
