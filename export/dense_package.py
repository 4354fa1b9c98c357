"""Packs one version of a dense network: trunk, head, golden scores of pixels, parity, manifest."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fleetledger.export.errors import ModelFileError
from fleetledger.export.golden import frozen_features, read_dense_golden, write_golden_scores
from fleetledger.export.graph import output_shape
from fleetledger.export.network_head import NETWORK_RULES
from fleetledger.export.package import (
    ExportedModel,
    ExportRules,
    Lineage,
    ModelFacts,
    PackedHead,
    described,
    require_golden,
)
from fleetledger.export.parity import measure_dense_parity, require_parity
from fleetledger.export.rules import check
from fleetledger.export.runtime import LoadedModel
from fleetledger.export.segmentation import DenseHead
from fleetledger.schemas.count_words import count_of
from fleetledger.schemas.models import BACKGROUND, FEATURES, SMALL_SCORES, of_pictures

Floats = npt.NDArray[np.float32]


def pack_dense(
    lineage: Lineage, facts: ModelFacts, head: DenseHead, rules: ExportRules = NETWORK_RULES
) -> ExportedModel:
    """Return the exported model; equal arguments give equal bytes on the same runtime.

    The lineage's frozen file is the trunk, its golden batch one of `build_dense_golden`, and the
    first of the facts' class names the background. Parity is measured on the golden pictures,
    against the head's formula, and a picture alone has to give what it gave among the others.
    Raises `ModelFileError` if trunk, head and names do not fit together or a score is NaN or
    infinite, and `ParityError` if the scores stray.
    """
    _check_fit(lineage, facts, head)
    trunk, file = LoadedModel(lineage.frozen), head.file()
    name = lineage.preprocessing.input_name
    inputs = read_dense_golden(lineage.golden, of_pictures(lineage.preprocessing))
    features = frozen_features(trunk, name, inputs)
    scores = _small_scores(file, features)
    limits = rules.for_scores(scores)
    parity = measure_dense_parity(file, head, features)
    require_parity(parity, limits.parity_tolerance)
    alone = _small_scores(file, frozen_features(trunk, name, inputs[:1]))
    require_golden(alone, scores[:1], limits.device_tolerance)
    written = write_golden_scores(scores, SMALL_SCORES)
    width = head.shape[1]
    packed = PackedHead(file, written, width, parity, limits.device_tolerance, "pixels")
    return described(lineage, facts, packed)


def _check_fit(lineage: Lineage, facts: ModelFacts, head: DenseHead) -> None:
    """Raise `ModelFileError` where head, names and trunk are not of one model."""
    names = facts.class_names
    if names[:1] != (BACKGROUND,) or len(set(names)) != len(names):
        raise ModelFileError(
            f"class_names: {list(names)}; give each row its own name, {BACKGROUND!r} to the first"
        )
    if head.shape[0] != len(names):
        raise ModelFileError(
            f"weights: {count_of(head.shape[0], 'row')} for {count_of(len(names), 'class name')}, "
            "the background among them; give a row for each"
        )
    made = output_shape(check(lineage.frozen, lineage.domains))
    wanted = (head.shape[1], *head.small)
    if made != wanted:
        raise ModelFileError(
            f"frozen: puts out features of shape {made} for a picture, and the head takes "
            f"{wanted}; export both from one network"
        )


def _small_scores(file: bytes, features: Floats) -> Floats:
    """Return the small scores of pictures one by one: ONNX Runtime makes the large ones too."""
    head = LoadedModel(file)
    pictures = [
        head.run({FEATURES: picture[np.newaxis]}, [SMALL_SCORES])[SMALL_SCORES]
        for picture in features
    ]
    scores = np.concatenate(pictures)
    if not np.isfinite(scores).all():
        raise ModelFileError("head: NaN or infinite scores; the weights are too large for float32")
    return scores
