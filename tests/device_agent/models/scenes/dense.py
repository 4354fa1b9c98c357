"""A model that tells colours pixel by pixel, packed as the coordinator does it, and real scenes."""

from functools import cache
from pathlib import Path

import numpy as np
from PIL import Image

from fleetledger.export.builder import GraphBuilder, float_value
from fleetledger.export.golden import build_dense_golden
from fleetledger.export.graph import BATCH
from fleetledger.export.network_head import NETWORK_RULES
from fleetledger.export.package import ExportedModel, Lineage, ModelFacts, pack_model
from fleetledger.export.segmentation import DenseHead
from fleetledger.schemas.models import BACKGROUND, FEATURES, Preprocessing
from fleetledger.schemas.values import ClassName
from tests.device_agent.samples.sources.drawing import index_png, save

SIZE = (16, 24)
COLOUR = Preprocessing(
    mode="RGB", size=SIZE, mean=(0.0,) * 3, deviation=(1.0,) * 3, input_name="image"
)
CROPPED = COLOUR.model_copy(
    update={"size": (16, 16), "resize": "shorter_side_crop", "shorter_side": 20}
)
RED, GREEN, BLUE = ClassName("red"), ClassName("green"), ClassName("blue")
CLASSES = '[classes]\n1 = "red"\n2 = "green"\n3 = "blue"\n'
PAINT = {0: (20, 20, 20), 1: (230, 10, 10), 2: (10, 230, 10), 3: (10, 10, 230), 255: (90, 90, 90)}
"""Colour of each value of a mask."""
_ROWS = {"red": (8, -8, -8), "green": (-8, 8, -8), "blue": (-8, -8, 8)}


def trunk(spec: Preprocessing = COLOUR) -> bytes:
    """Features are the mean colours of two by two pixels."""
    height, width = spec.size
    graph = GraphBuilder("network/")
    graph.add("AveragePool", "image", output=FEATURES, kernel_shape=[2, 2], strides=[2, 2])
    return graph.model(
        [float_value("image", BATCH, 3, height, width)],
        [float_value(FEATURES, BATCH, 3, height // 2, width // 2)],
    )


def head(names: tuple[str, ...], spec: Preprocessing = COLOUR) -> DenseHead:
    """A row per colour; the background's says 2 of every pixel."""
    rows = [(0, 0, 0), *(_ROWS[name] for name in names)]
    bias = [2.0] + [0.0] * len(names)
    small = (spec.size[0] // 2, spec.size[1] // 2)
    return DenseHead(np.array(rows, np.float32), np.array(bias, np.float32), small, spec.size)


@cache
def exported(
    names: tuple[str, ...] = ("red", "green"), version: int = 1, spec: Preprocessing = COLOUR
) -> ExportedModel:
    lineage = Lineage(trunk(spec), build_dense_golden(spec), spec)
    class_names = (ClassName(BACKGROUND), *map(ClassName, names))
    return pack_model(
        lineage,
        ModelFacts(version, "fbl", class_names, 5, 6, 1.0),
        head(names, spec),
        NETWORK_RULES,
    )


def blocks(*values: int, height: int = 16, width: int = 24) -> np.ndarray:
    """A mask of upright stripes."""
    stripes = np.array_split(np.arange(width), len(values))
    mask = np.zeros((height, width), np.uint8)
    for columns, value in zip(stripes, values, strict=True):
        mask[:, columns] = value
    return mask


def painted(mask: np.ndarray, seed: int = 0) -> Image.Image:
    """The picture of which a mask is right."""
    colours = np.zeros((256, 3), np.int64)
    for value, colour in PAINT.items():
        colours[value] = colour
    noise = np.random.default_rng(seed).integers(-9, 10, (*mask.shape, 3))
    return Image.fromarray(np.clip(colours[mask] + noise, 0, 255).astype(np.uint8))


def put_scene(folder: Path, name: str, mask: np.ndarray, picture: np.ndarray | None = None) -> None:
    """Write a scene whose picture shows `picture`, or what its mask says."""
    shown = mask if picture is None else picture
    save(painted(shown, len(name)), folder / "images" / f"{name}.png")
    save(index_png(mask), folder / "masks" / f"{name}.png")


def name_classes(folder: Path, text: str = CLASSES) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "classes.toml").write_text(text)
