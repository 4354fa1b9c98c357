"""Packs one version of the model: head, golden scores, parity and manifest. Bytes in, bytes out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from fleetledger.export.errors import ModelFileError, ParityError
from fleetledger.export.golden import (
    Golden,
    frozen_features,
    read_dense_golden,
    read_golden,
    write_golden_scores,
)
from fleetledger.export.graph import output_shape
from fleetledger.export.head import DEFAULT_LOGIT_SCALE, Head, RowsHead, head_scores
from fleetledger.export.parity import (
    DEFAULT_TOLERANCE,
    measure_parity,
    require_novelty,
    require_parity,
)
from fleetledger.export.rules import STANDARD_DOMAINS, check
from fleetledger.export.runtime import LoadedModel
from fleetledger.export.segmentation import DenseHead
from fleetledger.export.variants.feature_distance import VariantFeatures
from fleetledger.export.variants.gate import (
    NO_VARIANTS,
    HeadToJudge,
    JudgedVariants,
    VariantFile,
    judge,
)
from fleetledger.runtime.count_words import count_of
from fleetledger.schemas.file_reference import FileReference
from fleetledger.schemas.models import (
    BACKGROUND,
    FEATURES,
    SCORES,
    SMALL_SCORES,
    Answers,
    AnyPreprocessing,
    Manifest,
    Parity,
    of_pictures,
)
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
    (N, M) where given. Before a dense head the frozen model is the trunk, and the first class name
    the background's. Raises `ModelFileError` if head, names and frozen model do not fit together
    or a score of a pixel is NaN or infinite, and `ParityError` if the pair strays from the
    coordinator's prediction.
    """
    _check_fit(lineage, facts, head)
    dense = isinstance(head, DenseHead)
    golden = _dense_golden(lineage) if dense else read_golden(lineage.golden)
    file = head.file(facts.logit_scale)
    trunk, name = LoadedModel(lineage.frozen), lineage.preprocessing.input_name
    features = frozen_features(trunk, name, golden.inputs)
    # A dense batch has no features of its own: a picture alone gives what it gave among others.
    kept, again = golden.features, features
    if dense:
        kept, again = features, frozen_features(trunk, name, golden.inputs[:1])
    scores = _golden_scores(file, head, kept)
    limits = rules.for_scores(scores)
    found = _golden_scores(file, head, again)
    require_golden(found, scores[: len(found)], limits.device_tolerance)
    if extra_features is not None:
        features = np.concatenate([features, extra_features])
    parity = measure_parity(file, head, features)
    require_parity(parity, limits.parity_tolerance)
    if isinstance(head, RowsHead) and head.novelty is not None:
        require_novelty(file, head.novelty, features)
    written = write_golden_scores(scores, SMALL_SCORES if dense else SCORES)
    judged = _judged(lineage, golden, HeadToJudge(file, facts.class_names, limits.device_tolerance))
    answers: Answers = "pixels" if dense else "sample"
    width, tolerance = head.shape[1], limits.device_tolerance
    packed = PackedHead(file, written, width, parity, tolerance, answers, judged)
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


def _check_fit(lineage: Lineage, facts: ModelFacts, head: Head) -> None:
    """Raise `ModelFileError` where head, names and frozen model are not of one model."""
    names, small = facts.class_names, head.small if isinstance(head, DenseHead) else ()
    if small and (names[:1] != (BACKGROUND,) or len(set(names)) != len(names)):
        raise ModelFileError(
            f"class_names: {list(names)}; give each row its own name, {BACKGROUND!r} to the first"
        )
    if len(head.shape) != 2 or head.shape[0] != len(names):
        raise ModelFileError(
            f"weights: shape {head.shape} for {count_of(len(names), 'class name')}; give a row of "
            "features for each"
        )
    made, wanted = output_shape(check(lineage.frozen, lineage.domains)), (head.shape[1], *small)
    if made != wanted:
        raise ModelFileError(
            f"frozen: puts out features of shape {made} for a sample, and the head takes "
            f"{wanted}; export both from one network"
        )


def _dense_golden(lineage: Lineage) -> Golden:
    inputs = read_dense_golden(lineage.golden, of_pictures(lineage.preprocessing))
    return Golden(inputs, np.empty((0, 0), np.float32))


def _golden_scores(
    file: bytes, head: Head, features: npt.NDArray[np.float32]
) -> npt.NDArray[np.float32]:
    """Return the scores of samples, or the small ones of pictures, of which each is run alone.

    ONNX Runtime makes the large ones too, which are many times as many.
    """
    if not isinstance(head, DenseHead):
        return head_scores(file, features)
    model = LoadedModel(file)
    pictures = [model.run({FEATURES: each[np.newaxis]}, [SMALL_SCORES]) for each in features]
    scores = np.concatenate([picture[SMALL_SCORES] for picture in pictures])
    if not np.isfinite(scores).all():
        raise ModelFileError("head: NaN or infinite scores; the weights are too large for float32")
    return scores


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
