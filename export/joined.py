"""A whole model in one ONNX file: preprocessed samples in, scores and probabilities out.

For programs that know nothing of pairs and manifests. Frozen part and head are put into one graph;
what only said how they follow each other, the name `features`, stays inside.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import onnx.version_converter
from onnx import ModelProto

from export.errors import ModelFileError, ParityError
from export.graph import clean, opset_of, prefix_names, write
from export.head import head_scores
from export.rules import STANDARD_DOMAINS, check
from export.runtime import LoadedModel
from schemas.models import FEATURES, PROBABILITIES, SCORES

PREFIX = "head/"


def join_model(frozen: bytes, head: bytes, domains: frozenset[str] = STANDARD_DOMAINS) -> bytes:
    """Return one model with the input of `frozen` and the outputs of `head`; equal bytes for equal.

    Where the two speak different opsets the older one is converted to the newer. Raises
    `ModelFileError` where they cannot become one.
    """
    first, second = check(frozen, domains), check(head, domains)
    opset = max(opset_of(first), opset_of(second))
    first, second = _raised(first, opset), _raised(second, opset)
    outputs = (SCORES, PROBABILITIES)
    if first.graph.input[0].name in outputs:
        raise ModelFileError(
            f"input_name: {first.graph.input[0].name!r} is the name of an output of the joined "
            "model; import the backbone again with another input"
        )
    prefix_names(second.graph, PREFIX, frozenset({FEATURES, *outputs}))
    graph = first.graph
    graph.node.extend(second.graph.node)
    graph.initializer.extend(second.graph.initializer)
    del graph.output[:]
    graph.output.extend(second.graph.output)
    data = write(clean(first))
    check(data, domains)
    return data


def require_equal(
    joined: bytes, pair: tuple[bytes, bytes], inputs: dict[str, npt.NDArray[Any]], tolerance: float
) -> float:
    """Return by how much the scores of a joined model differ from those of its pair.

    `inputs` are preprocessed samples by the input's name. Raises `ParityError` above `tolerance`.
    """
    frozen, head = pair
    expected = head_scores(head, LoadedModel(frozen).run(inputs)[FEATURES])
    found = LoadedModel(joined).run(inputs)[SCORES]
    difference = float(np.abs(found - expected).max())
    if difference > tolerance:
        raise ParityError(
            f"joined model: its scores stray by {difference:.3g} from those of the pair, more than "
            f"{tolerance:.3g}; run the two files one after the other"
        )
    return difference


def _raised(model: ModelProto, opset: int) -> ModelProto:
    """Return the model under a newer opset, converted by ONNX's own converter."""
    if opset_of(model) == opset:
        return model
    try:
        return onnx.version_converter.convert_version(model, opset)
    except Exception as error:  # the converter raises RuntimeError and others of its own
        raise ModelFileError(
            f"model: opset {opset_of(model)} cannot be converted to {opset} ({error}); import a "
            f"backbone that was exported with opset {opset}"
        ) from error
