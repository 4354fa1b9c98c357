"""Real models for 8 x 8 grey pictures, exported as the coordinator does it, and real pictures."""

import io
from functools import cache
from pathlib import Path

import numpy as np
from onnx import TensorProto, helper
from PIL import Image

from fleetledger.device_agent.home.store.blobs import BlobFolder
from fleetledger.export.frozen import build_frozen
from fleetledger.export.golden import build_golden
from fleetledger.export.package import ExportedModel, Lineage, SolvedHead, export_model
from fleetledger.export.scaling_backbone import scaling_backbone
from fleetledger.schemas.assignments import Assignment
from fleetledger.schemas.models import DesiredModel, Manifest
from fleetledger.schemas.offers import Offer
from fleetledger.schemas.values import ClassName
from fleetledger.transport.block_source import BlockSource
from tests.device_agent.making import GREY_8

CLASSES = (ClassName("dark"), ClassName("light"))


@cache
def lineage() -> Lineage:
    """A frozen model whose features are the 64 pixels, 0 to 127."""
    frozen = build_frozen(scaling_backbone(GREY_8), "none")
    return Lineage(frozen, build_golden(frozen, GREY_8), GREY_8)


def head_weights(flipped: bool = False) -> np.ndarray:
    """A head (2, 64) that tells a bright upper half from a bright lower half."""
    upper = np.repeat([1.0, -1.0], 32) / 64 / 127
    return np.stack([-upper, upper] if flipped else [upper, -upper])


@cache
def exported(version: int = 1, flipped: bool = False) -> ExportedModel:
    solved = SolvedHead(version, "stsa", CLASSES, head_weights(flipped), 5, 6)
    return export_model(lineage(), solved)


def of_another_network(version: int) -> ExportedModel:
    """The same answers by another frozen part: what it scales does not change its features."""
    frozen = build_frozen(scaling_backbone(GREY_8, 2.0), "none")
    other = Lineage(frozen, build_golden(frozen, GREY_8), GREY_8)
    return export_model(other, SolvedHead(version, "stsa", CLASSES, head_weights(), 5, 6))


def store_model(blobs: BlobFolder, model: ExportedModel) -> DesiredModel:
    """Put manifest and files into `blobs`; return the desired model that names them."""
    for data in (model.manifest.canonical_bytes(), *model.files.values()):
        blobs.put(data)
    return desired_of(model.manifest, model)


def desired_of(manifest: Manifest, model: ExportedModel, action: int = 7) -> DesiredModel:
    return DesiredModel(
        action=action,
        version=manifest.version,
        manifest=offer_of(manifest.canonical_bytes()),
        files=tuple(offer_of(data) for data in model.files.values()),
    )


def offer_of(data: bytes) -> Offer:
    return BlockSource(data).offer


def assignment(*names: str, per_part: int = 100) -> Assignment:
    frozen = offer_of(lineage().frozen)
    return Assignment(
        action=1,
        stage=1,
        method="stsa",
        settings={},
        lineage=frozen.digest,
        frozen=frozen,
        preprocessing=GREY_8,
        class_names=tuple(ClassName(name) for name in names or CLASSES),
        stage_class_names=(),
        max_samples_per_part=per_part,
    )


def picture(name: str, seed: int = 0) -> bytes:
    """A PNG whose upper half is bright for `dark` and its lower half for `light`."""
    noise = np.random.default_rng(seed).integers(0, 40, (8, 8))
    bright = np.zeros((8, 8), int)
    bright[slice(0, 4) if name == "dark" else slice(4, 8)] = 200
    file = io.BytesIO()
    Image.fromarray((bright + noise).astype(np.uint8)).save(file, "PNG")
    return file.getvalue()


def put_pictures(folder: Path, name: str, *seeds: int) -> None:
    (folder / name).mkdir(parents=True, exist_ok=True)
    for seed in seeds:
        (folder / name / f"{seed}.png").write_bytes(picture(name, seed))


@cache
def standardising_lineage() -> Lineage:
    """A frozen model that divides each picture by its own deviation: NaN for a flat one."""
    value = helper.make_tensor_value_info
    nodes = [
        helper.make_node("ReduceMean", ["input"], ["mean"], axes=[1, 2, 3], keepdims=1),
        helper.make_node("Sub", ["input", "mean"], ["difference"]),
        helper.make_node("Mul", ["difference", "difference"], ["square"]),
        helper.make_node("ReduceMean", ["square"], ["variance"], axes=[1, 2, 3], keepdims=1),
        helper.make_node("Sqrt", ["variance"], ["deviation"]),
        helper.make_node("Div", ["difference", "deviation"], ["standard"]),
        helper.make_node("Flatten", ["standard"], ["flat"]),
    ]
    graph = helper.make_graph(
        nodes,
        "standardise",
        [value("input", TensorProto.FLOAT, ["batch", 1, 8, 8])],
        [value("flat", TensorProto.FLOAT, ["batch", 64])],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    made.ir_version = 8
    frozen = build_frozen(made.SerializeToString(), "none")
    return Lineage(frozen, build_golden(frozen, GREY_8), GREY_8)


def flat_picture(level: int = 0) -> bytes:
    """A PNG of one grey level."""
    file = io.BytesIO()
    Image.fromarray(np.full((8, 8), level, np.uint8)).save(file, "PNG")
    return file.getvalue()
