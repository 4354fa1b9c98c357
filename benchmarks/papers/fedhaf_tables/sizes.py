"""How many numbers a device would send: of what FedHAF trains, and of whole networks."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod
from pathlib import Path

import onnx

from benchmarks.papers.fedhaf_tables.cases import Case
from fleetledger.learning.networks.registry import build_network
from fleetledger.methods.registry import training_coordinator

CLASSES, FEATURES = 100, 1280
"""Of CIFAR-100, and of MobileNetV2."""


def trained_numbers(case: Case) -> int:
    """Return the numbers of the network that a case trains, buffers among them."""
    half = training_coordinator("rounds" if case.method == "joint" else case.method)
    network, _, _ = half.network_of(
        assignment := half.assign(case.settings, (FEATURES,)), half.first_weights(assignment)
    )
    return _total(network.shapes(CLASSES).values())


def whole_networks(backbone: Path) -> dict[str, int]:
    """Return the numbers of networks that a fleet would train whole, with a head of 100 rows.

    Those of the backbone are counted in its file, where batch normalisation is folded.
    """
    held = onnx.load(str(backbone)).graph.initializer
    floats = [item.dims for item in held if item.data_type == onnx.TensorProto.FLOAT]
    head = CLASSES * (FEATURES + 1)
    resnet18 = build_network("resnet18", (3, 32, 32)).shapes(CLASSES)
    return {
        "the whole MobileNetV2": _total(floats) + head,
        "a whole ResNet-18": _total(resnet18.values()),
    }


def _total(shapes: Iterable[Iterable[int]]) -> int:
    return sum(prod(shape) for shape in shapes)
