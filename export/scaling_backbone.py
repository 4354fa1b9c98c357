"""The smallest backbone: a picture's pixels, scaled, in one row. For demonstrations and tests."""

from __future__ import annotations

import math

from fleetledger.export.builder import GraphBuilder, float_value
from fleetledger.export.graph import BATCH
from fleetledger.schemas.arrays import ArrayPreprocessing
from fleetledger.schemas.models import Preprocessing


def scaling_backbone(
    preprocessing: Preprocessing | ArrayPreprocessing, factor: float = 1.0
) -> bytes:
    """Return an ONNX model: images (N, ...) times `factor`, flattened to (N, width).

    For pictures of 8 by 8 pixels in grey the width is 64.
    """
    shape = preprocessing.shape
    builder = GraphBuilder()
    scaled = builder.add(
        "Mul", preprocessing.input_name, builder.constant("factor", [factor], "float32")
    )
    builder.add("Flatten", scaled, output="pixels", axis=1)
    return builder.model(
        [float_value(preprocessing.input_name, BATCH, *shape)],
        [float_value("pixels", BATCH, math.prod(shape))],
    )
