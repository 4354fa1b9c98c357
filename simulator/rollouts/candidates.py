"""Candidates: the fleet's last model as one ONNX file, changed in the way that the scenario says.

Each is a whole and valid classifier, as somebody might have trained it elsewhere: preprocessed
pictures in, scores out. What is wrong with it is in its graph, so that devices can only find out by
running it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import ModelProto, TensorProto

from fleetledger.export.builder import GraphBuilder, float_value
from fleetledger.export.graph import BATCH, write
from fleetledger.export.joined import join_model
from fleetledger.export.rules import check
from fleetledger.schemas.models import SCORES, Manifest
from fleetledger.simulator.errors import EngineError
from fleetledger.simulator.plan.streams import random_stream
from fleetledger.simulator.rollouts.brightness import Threshold
from fleetledger.simulator.scenario.rollout import CandidateSettings

_PREFIX = "candidate/"
_SIDE = 256
"""Of the matrices that a slow candidate multiplies."""
_NEVER_WINS = -100.0
"""What the lost class's score is changed by; scores of ridge regressions lie within 2, logits of
small networks within 50."""


@dataclass(frozen=True)
class CandidateMaterial:
    """What a candidate is made from."""

    manifest: Manifest
    """Of the fleet's last model."""
    frozen: bytes
    head: bytes
    dark: Threshold | None = None
    """Tells pictures of dim cameras from all others, by their brightest pixel."""
    made_up: Threshold | None = None
    """Tells pictures of devices from made-up ones, by their mean."""


def make_candidate(settings: CandidateSettings, material: CandidateMaterial, seed: int) -> bytes:
    """Return the candidate's ONNX file: the input of the frozen part, one output `scores` (N, C).

    Equal arguments give equal bytes. Raises `EngineError` for a class that the model does not know.
    """
    model = onnx.load_model_from_string(join_model(material.frozen, material.head))
    del model.graph.output[1:]
    manifest, kind = material.manifest, settings.kind
    edit = GraphBuilder(_PREFIX)
    source = manifest.preprocessing.input_name
    scores = _former(edit)
    if kind == "good":
        scores = _mixed(edit, manifest, settings.noise, seed)
    elif kind == "bad-class":
        scores = _without(edit, manifest, settings)
    elif kind == "slow":
        _before(model, edit, _working(edit, source, settings.work))
    elif kind == "bad-camera":
        assert material.dark is not None, "a scenario with dim cameras knows which are dim"
        _before(model, edit, _blanking(edit, source, material.dark))
    else:
        assert material.made_up is not None, "a candidate crashes on pictures of devices alone"
        _before(model, edit, _crashing(edit, source, material.made_up))
    _behind(model, edit, scores, manifest.logit_scale)
    data = write(model)
    check(data)
    return data


def _mixed(edit: GraphBuilder, manifest: Manifest, noise: float, seed: int) -> str:
    """Return scores of which each has a little of the others."""
    classes = len(manifest.class_names)
    random = random_stream(seed, "candidate")
    mixing = np.eye(classes) + noise * random.standard_normal((classes, classes))
    return edit.add("MatMul", _former(edit), edit.constant("mixing", mixing, np.float32))


def _without(edit: GraphBuilder, manifest: Manifest, settings: CandidateSettings) -> str:
    """Return scores among which one class never is the highest."""
    names = manifest.class_names
    lost = settings.of_class or names[0]
    if lost not in names:
        raise EngineError(
            f"rollout.candidate.of_class: {lost!r} is no class of the fleet's model; give one of "
            f"{', '.join(names)}"
        )
    change: NDArray[np.float64] = np.zeros((1, len(names)))
    change[0, names.index(lost)] = _NEVER_WINS
    return edit.add("Add", _former(edit), edit.constant("change", change, np.float32))


def _working(edit: GraphBuilder, source: str, products: int) -> str:
    """Return the input as it is, after products of matrices that nothing comes of."""
    random = np.random.default_rng(0)
    matrix = edit.constant("matrix", random.standard_normal((_SIDE, _SIDE)) / 16, np.float32)
    value = edit.add("Mul", _pooled(edit, source, "GlobalAveragePool"), matrix)
    for _ in range(products):
        value = edit.add("Tanh", edit.add("MatMul", value, matrix))
    nothing = edit.add(
        "Mul", edit.add("GlobalMaxPool", value), edit.constant("nothing", [0], np.float32)
    )
    return edit.add("Add", source, nothing)


def _blanking(edit: GraphBuilder, source: str, dark: Threshold) -> str:
    """Return the input, or zeros where its brightest value says that it is dark."""
    brightest = _pooled(edit, source, "GlobalMaxPool")
    limit = edit.constant("limit", [dark.limit], np.float32)
    seen = edit.add("Not", edit.add(_comparing(dark), brightest, limit))
    return edit.add("Mul", source, edit.add("Cast", seen, to=TensorProto.FLOAT))


def _crashing(edit: GraphBuilder, source: str, made_up: Threshold) -> str:
    """Return the input; of a picture that is not made up the graph looks up what is not there."""
    limit = edit.constant("limit", [made_up.limit], np.float32)
    real = edit.add(_comparing(made_up), _pooled(edit, source, "GlobalAveragePool"), limit)
    row = edit.add("Cast", real, to=TensorProto.INT64)
    return edit.add("Add", source, edit.add("Gather", edit.constant("table", [0], np.float32), row))


def _comparing(threshold: Threshold) -> str:
    return "Less" if threshold.below else "Greater"


def _pooled(edit: GraphBuilder, source: str, operator: str) -> str:
    """Return one number of each sample (N, 1, 1, 1), whatever its layout and the opset."""
    row = edit.add("Reshape", source, edit.constant("row", [0, 1, 1, -1], np.int64))
    return edit.add(operator, row)


def _former(edit: GraphBuilder) -> str:
    return f"{edit.prefix}{SCORES}"


def _behind(model: ModelProto, edit: GraphBuilder, result: str, scale: float) -> None:
    """Let `edit` make the scores out of what made them before, ready for a softmax."""
    graph = model.graph
    for node in graph.node:
        node.output[:] = [_former(edit) if name == SCORES else name for name in node.output]
        node.input[:] = [_former(edit) if name == SCORES else name for name in node.input]
    edit.add("Mul", result, edit.constant("scale", [scale], np.float32), output=SCORES)
    graph.node.extend(edit.nodes)
    graph.initializer.extend(edit.constants)
    classes = graph.output[0].type.tensor_type.shape.dim[1].dim_value
    graph.output[0].CopyFrom(float_value(SCORES, BATCH, classes))


def _before(model: ModelProto, edit: GraphBuilder, result: str) -> None:
    """Let the model see `result`, which `edit` makes of its input."""
    graph, source = model.graph, model.graph.input[0].name
    for node in graph.node:
        node.input[:] = [result if name == source else name for name in node.input]
    nodes = [*edit.nodes, *graph.node]
    del graph.node[:]
    graph.node.extend(nodes)
    edit.nodes.clear()
