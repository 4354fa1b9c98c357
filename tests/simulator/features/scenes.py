"""A small data set with a small convolutional backbone, and a watch that remembers."""

import numpy as np

from fleetledger.export.backbone import import_backbone
from fleetledger.export.frozen import MapKind, build_frozen
from fleetledger.learning.numerics.counter_generator import gaussian_map, integer_map
from fleetledger.schemas.values import ClassName
from fleetledger.simulator.backbones.backbone import Backbone
from fleetledger.simulator.datasets.images import LabelledImages, Split
from fleetledger.simulator.features.interface import FrozenModel
from tests.export.networks import COLOUR, WIDTH, data, pooled_network

NAMES = (ClassName("eel"), ClassName("fox"))
BACKBONE = Backbone("small", data(pooled_network()), COLOUR)
COLUMNS = 20


class Heard:
    """A watch that keeps what it was told."""

    def __init__(self) -> None:
        self.phases: list[str] = []
        self.remarks: list[str] = []

    def stage(self, number: int, total: int) -> None:
        raise AssertionError("extraction knows no stages")

    def phase(self, text: str) -> None:
        self.phases.append(text)

    def remark(self, text: str) -> None:
        self.remarks.append(text)

    def agents(self, done: int, total: int) -> None:
        raise AssertionError("extraction knows no agents")

    @property
    def extracted(self) -> bool:
        return any(phase.startswith("extracting") for phase in self.phases)


def images(count: int, seed: int) -> LabelledImages:
    random = np.random.default_rng(seed)
    pixels = random.integers(0, 256, (count, 14, 11, 3), dtype=np.uint8)
    return LabelledImages(pixels, np.arange(count) % 2, NAMES)


def split(train: int = 30, test: int = 10) -> Split[LabelledImages]:
    return Split(images(train, seed=1), images(test, seed=2))


def frozen_model(kind: MapKind, backbone: Backbone = BACKBONE) -> FrozenModel:
    matrix = {
        "integer": integer_map(3, WIDTH, COLUMNS),
        "gaussian": gaussian_map(3, WIDTH, COLUMNS),
        "none": None,
    }[kind]
    imported = import_backbone(backbone.data, backbone.preprocessing)
    return FrozenModel(build_frozen(imported.model, kind, matrix, feature_bits=8), kind, matrix, 8)
