"""A small network of convolutions for 8 x 8 grey pictures, its variants, and models on them."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import pairwise

import numpy as np
import numpy.typing as npt
from onnx import helper, numpy_helper

from fleetledger.device_agent.home.store.blobs import BlobFolder
from fleetledger.export.backbone import import_backbone
from fleetledger.export.frozen import build_frozen
from fleetledger.export.golden import build_golden, read_golden
from fleetledger.export.package import (
    ExportedModel,
    Lineage,
    LineageVariants,
    SolvedHead,
    export_model,
)
from fleetledger.export.runtime import LoadedModel
from fleetledger.export.variants.feature_distance import VariantFeatures, features_of
from fleetledger.export.variants.gate import VariantFile
from fleetledger.export.variants.variant_maker import made_variants
from fleetledger.learning.numerics.preprocessing import preprocess
from fleetledger.schemas.file_reference import FileReference
from fleetledger.schemas.models import FEATURES, DesiredModel
from fleetledger.schemas.variants import VariantName, VariantOffer
from tests.device_agent import model_files as models
from tests.device_agent.making import GREY_8
from tests.export.networks import data, network, value

CHANNELS = (1, 8, 8, 8, 8, 16)
COLUMNS = 40
NAMES = tuple(str(name) for name in models.CLASSES)


def backbone(opset: int = 17) -> bytes:
    """Five convolutions with ReLU, and the mean over pixels: 16 features."""
    generator = np.random.default_rng(3)
    nodes, constants, given = [], [], "input"
    for number, (wide_in, wide_out) in enumerate(pairwise(CHANNELS)):
        weights = generator.normal(size=(wide_out, wide_in, 3, 3)) * np.sqrt(2 / (9 * wide_in))
        constants.append(numpy_helper.from_array(weights.astype(np.float32), f"w{number}"))
        nodes.append(
            helper.make_node("Conv", [given, f"w{number}"], [f"c{number}"], pads=[1, 1, 1, 1])
        )
        given = f"r{number}"
        nodes.append(helper.make_node("Relu", [f"c{number}"], [given]))
    nodes.append(helper.make_node("GlobalAveragePool", [given], ["pool"]))
    nodes.append(helper.make_node("Flatten", ["pool"], ["flat"]))
    image = value("input", ["batch", 1, 8, 8])
    return data(network((nodes, constants), value("flat", ["batch", 16]), image, opset))


@cache
def frozen(opset: int = 17) -> bytes:
    """The network before an integer map."""
    matrix = np.random.default_rng(5).integers(-2, 3, (16, COLUMNS))
    return build_frozen(import_backbone(backbone(opset), GREY_8).model, "integer", matrix)


@cache
def wrong() -> bytes:
    """The same network before another map: a file that gives wrong answers."""
    matrix = np.random.default_rng(6).integers(-2, 3, (16, COLUMNS))
    return build_frozen(import_backbone(backbone(), GREY_8).model, "integer", matrix)


@cache
def samples(first: int, count: int) -> npt.NDArray[np.float32]:
    """Preprocessed pictures, dark and light ones in turn."""
    return np.stack(
        [
            preprocess(models.picture(NAMES[number % 2], number), GREY_8)
            for number in range(first, first + count)
        ]
    )


@cache
def variants() -> dict[VariantName, bytes]:
    return made_variants(frozen(), "input", samples(0, 40))


@cache
def measured() -> VariantFeatures:
    golden = read_golden(build_golden(frozen(), GREY_8))
    held_out = samples(1000, 120)
    labels = [NAMES[number % 2] for number in range(120)]
    return features_of(frozen(), variants(), "input", held_out, labels, golden)


def files() -> tuple[VariantFile, ...]:
    return tuple(VariantFile(name, FileReference.of(item)) for name, item in variants().items())


def lineage(features: VariantFeatures | None = None) -> Lineage:
    made = LineageVariants(files(), features or measured())
    return Lineage(frozen(), build_golden(frozen(), GREY_8), GREY_8, variants=made)


@cache
def head_weights() -> npt.NDArray[np.float64]:
    """Rows that tell dark from light by the reference's features, by ridge regression."""
    found = LoadedModel(frozen()).run({"input": samples(0, 200)})[FEATURES].astype(np.float64)
    targets = np.eye(2)[np.arange(200) % 2]
    gram = found.T @ found + 100 * np.eye(COLUMNS)
    return np.asarray(np.linalg.solve(gram, found.T @ targets).T)


def solved(version: int = 1) -> SolvedHead:
    return SolvedHead(version, "stsa", models.CLASSES, head_weights(), 5, 6)


@cache
def exported(version: int = 1) -> ExportedModel:
    return export_model(lineage(), solved(version))


def without_variants(model: ExportedModel) -> ExportedModel:
    return replace(model, manifest=model.manifest.model_copy(update={"variants": ()}))


def store(
    blobs: BlobFolder, model: ExportedModel, *names: VariantName, reference: bool = False
) -> DesiredModel:
    """Put a model's files into `blobs`, with these variants; return what a coordinator desires."""
    manifest = model.manifest
    for digest, item in model.files.items():
        if reference or digest != manifest.frozen.digest:
            blobs.put(item)
    blobs.put(manifest.canonical_bytes())
    for name in names:
        blobs.put(variants()[name])
    return desired(model)


def desired(model: ExportedModel, action: int = 7) -> DesiredModel:
    manifest = model.manifest
    offers = tuple(
        VariantOffer(
            name=item.name,
            frozen=models.offer_of(variants()[item.name]),
            replaces=manifest.frozen.digest,
        )
        for item in manifest.variants
    )
    return models.desired_of(manifest, model, action).model_copy(update={"variants": offers})
