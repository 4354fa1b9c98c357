"""A whole model in one ONNX file: preprocessed samples in, scores and probabilities out.

For programs that know nothing of pairs and manifests. Frozen part and head are put into one graph;
what only said how they follow each other, the name `features`, stays inside. Of a model of pixels
the scores of every pixel come out, and probabilities are left to the reader, as by its `head.onnx`.
How new a sample is, is left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx.version_converter
from onnx import GraphProto, ModelProto

from fleetledger.export.cut import reads
from fleetledger.export.errors import ModelFileError, ParityError
from fleetledger.export.graph import clean, opset_of, prefix_names, write
from fleetledger.export.rules import STANDARD_DOMAINS, check
from fleetledger.export.runtime import LoadedModel
from fleetledger.schemas.models import FEATURES, NOVELTY, PROBABILITIES, SCORES

PREFIX = "head/"
_OUTPUTS = (SCORES, PROBABILITIES)


def join_model(frozen: bytes, head: bytes, domains: frozenset[str] = STANDARD_DOMAINS) -> bytes:
    """Return one model with the input of `frozen` and the outputs of `head`; equal bytes for equal.

    `domains` are the operator domains allowed. Small scores are no output of it. Where the two
    speak different opsets the older one is converted to the newer. Raises
    `ModelFileError` where they cannot become one.
    """
    first, second = check(frozen, domains), check(head, domains)
    opset = max(opset_of(first), opset_of(second))
    results = [result for result in second.graph.output if result.name in _OUTPUTS]
    if any(value.name == NOVELTY for value in second.graph.output):
        _keep_only(second.graph, [result.name for result in results])
    first, second = _raised(first, opset), _raised(second, opset)
    if first.graph.input[0].name in _OUTPUTS:
        raise ModelFileError(
            f"input_name: {first.graph.input[0].name!r} is the name of an output of the joined "
            "model; import the backbone again with another input"
        )
    prefix_names(second.graph, PREFIX, frozenset({FEATURES, *_OUTPUTS}))
    graph = first.graph
    graph.node.extend(second.graph.node)
    graph.initializer.extend(second.graph.initializer)
    del graph.output[:]
    graph.output.extend(results)
    known = {entry.domain for entry in first.opset_import}
    first.opset_import.extend(entry for entry in second.opset_import if entry.domain not in known)
    data = write(clean(first))
    check(data, domains)
    return data


def require_equal(
    joined: bytes, pair: tuple[bytes, bytes], inputs: dict[str, npt.NDArray[Any]], tolerance: float
) -> float:
    """Return by how much the scores of a joined model differ from those of its pair.

    `inputs` are preprocessed samples by the input's name, compared one by one, as the scores of a
    picture's pixels may be 256 MiB. Raises `ParityError` above `tolerance`.
    """
    frozen, head, whole = (LoadedModel(data) for data in (*pair, joined))
    ((name, samples),) = inputs.items()
    differences = []
    for sample in samples:
        one = {name: sample[np.newaxis]}
        expected = head.run({FEATURES: frozen.run(one)[FEATURES]}, [SCORES])[SCORES]
        differences.append(np.abs(whole.run(one, [SCORES])[SCORES] - expected).max())
    difference = float(np.max(differences))
    if difference > tolerance:
        raise ParityError(
            f"joined model: its scores stray by {difference:.3g} from those of the pair, more than "
            f"{tolerance:.3g}; run the two files one after the other"
        )
    return difference


def _keep_only(graph: GraphProto, outputs: Sequence[str]) -> None:
    """Leave out what no output of these names needs."""
    needed, kept = set(outputs), []
    for node in reversed(graph.node):
        if needed.intersection(node.output):
            kept.append(node)
            needed |= reads(node)
    constants = [tensor for tensor in graph.initializer if tensor.name in needed]
    values = [value for value in graph.output if value.name in outputs]
    for field, rest in (("node", kept[::-1]), ("initializer", constants), ("output", values)):
        graph.ClearField(field)
        getattr(graph, field).extend(rest)


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
