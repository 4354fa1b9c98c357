"""Classifiers as other makers' tools write them, each small, with weights from a generator.

Written by hand as these tools write them, since none of them is needed for anything else: names,
opsets, batch axes, casts and what stands at the ends are theirs. ONNX Runtime's quantiser, which is
there, writes its own.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

from fleetledger.export.noise import noise_inputs
from tests.export.networks import value
from tests.export.own_networks import PICTURES, classifier
from tests.export.tails import Tail, softmax, with_tail

CLASSES = 5
Parts = tuple[list[NodeProto], dict[str, Any]]


def drawn(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(np.float32) / 2


def written(
    nodes: list[NodeProto],
    constants: dict[str, Any],
    *,
    image: Any = None,
    outputs: Any = None,
    opset: int = 15,
    ir: int = 8,
    domains: dict[str, int] | None = None,
) -> ModelProto:
    graph = helper.make_graph(
        nodes,
        "main_graph",
        [image or value("image", ["N", 3, 12, 10])],
        outputs or [value("out", ["N", CLASSES])],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()],
    )
    imports = [helper.make_opsetid("", opset)]
    imports += [helper.make_opsetid(name, number) for name, number in (domains or {}).items()]
    return helper.make_model(graph, opset_imports=imports, ir_version=ir, producer_name="a tool")


def node(operator: str, inputs: str, output: str, **attributes: Any) -> NodeProto:
    return helper.make_node(operator, inputs.split(), output.split(), **attributes)


def features(source: str = "image") -> Parts:
    """Convolution, pooling, a row `flat` of 8 features."""
    nodes = [
        node("Conv", f"{source} w", "conv"),
        node("Relu", "conv", "relu"),
        node("GlobalAveragePool", "relu", "pool"),
        node("Flatten", "pool", "flat"),
    ]
    return nodes, {"w": drawn(8, 3, 3, 3)}


def tf2onnx(end: str = "Softmax") -> ModelProto:
    """Pictures NHWC, a Transpose in front, MatMul and Add, an Identity behind."""
    nodes, constants = features("nchw")
    nodes.insert(0, node("Transpose", "image", "nchw", perm=[0, 3, 1, 2]))
    nodes += [
        node("MatMul", "flat dense/kernel", "dense/MatMul:0"),
        node("Add", "dense/MatMul:0 dense/bias", "dense/BiasAdd:0"),
        node(end, "dense/BiasAdd:0", "dense/Softmax:0"),
        node("Identity", "dense/Softmax:0", "Identity:0"),
    ]
    constants |= {"dense/kernel": drawn(8, CLASSES), "dense/bias": drawn(CLASSES)}
    return written(
        nodes,
        constants,
        image=value("image", ["unk__16", 12, 10, 3]),
        outputs=[value("Identity:0", ["unk__17", CLASSES])],
        domains={"ai.onnx.ml": 2},
    )


def paddle2onnx(*, squeezes: bool = True) -> ModelProto:
    """Batches of -1, a convolution of 1 x 1 as the last layer, Squeeze, Softmax, Scale."""
    nodes, constants = features()
    nodes = nodes[:-1]
    if squeezes:
        nodes += [
            node("Conv", "pool fc_w", "conv2d_1.tmp_0"),
            node("Squeeze", "conv2d_1.tmp_0 axes", "squeeze_0.tmp_0"),
            node("Softmax", "squeeze_0.tmp_0", "softmax_0.tmp_0", axis=-1),
        ]
        constants |= {"fc_w": drawn(CLASSES, 8, 1, 1), "axes": np.array([2, 3])}
    else:
        nodes += [
            node("Reshape", "pool shape", "flatten_0.tmp_0"),
            node("MatMul", "flatten_0.tmp_0 fc_w", "linear_0.tmp_0"),
            node("Softmax", "linear_0.tmp_0", "softmax_0.tmp_0", axis=1),
        ]
        constants |= {"fc_w": drawn(8, CLASSES), "shape": np.array([-1, 8])}
    nodes.append(node("Mul", "softmax_0.tmp_0 scale", "save_infer_model/scale_0.tmp_0"))
    constants["scale"] = np.float32(1)
    return written(
        nodes,
        constants,
        image=value("image", [-1, 3, 12, 10]),
        outputs=[value("save_infer_model/scale_0.tmp_0", [-1, CLASSES])],
        opset=13,
    )


def skl2onnx(*, zipmap: bool) -> ModelProto:
    """A linear classifier of pixels; labels and probabilities, the latter in a list of maps."""
    nodes = [
        node("Flatten", "image", "pixels"),
        node(
            "LinearClassifier",
            "pixels",
            "label raw",
            domain="ai.onnx.ml",
            classlabels_ints=list(range(CLASSES)),
            coefficients=drawn(CLASSES, 360).ravel().tolist(),
            intercepts=drawn(CLASSES).tolist(),
            post_transform="SOFTMAX",
            multi_class=1,
        ),
        node("Normalizer", "raw", "probabilities", domain="ai.onnx.ml", norm="L1"),
        node("Cast", "label", "output_label", to=TensorProto.INT64),
    ]
    shares = value("probabilities", ["N", CLASSES])
    if zipmap:
        nodes.append(
            node(
                "ZipMap",
                "probabilities",
                "output_probability",
                domain="ai.onnx.ml",
                classlabels_int64s=list(range(CLASSES)),
            )
        )
        share = helper.make_tensor_type_proto(TensorProto.FLOAT, [])
        of_maps = helper.make_sequence_type_proto(
            helper.make_map_type_proto(TensorProto.INT64, share)
        )
        shares = helper.make_value_info("output_probability", of_maps)
    labels = value("output_label", ["N"], TensorProto.INT64)
    return written(nodes, {}, outputs=[labels, shares], domains={"ai.onnx.ml": 1})


def halved(*, keep_io: bool) -> ModelProto:
    """As onnxconverter-common makes float16 of a model, with float32 at both ends or none."""
    nodes, constants = features("half")
    nodes += [
        node("Gemm", "flat rows shift", "logits", transB=1),
        node("Softmax", "logits", "shares", axis=1),
    ]
    constants |= {"rows": drawn(CLASSES, 8), "shift": drawn(CLASSES)}
    halves = {name: array.astype(np.float16) for name, array in constants.items()}
    if keep_io:
        nodes.insert(0, node("Cast", "image", "half", to=TensorProto.FLOAT16))
        nodes.append(node("Cast", "shares", "out", to=TensorProto.FLOAT))
        return written(nodes, halves)
    nodes[0].input[0] = "image"
    return written(
        nodes,
        halves,
        image=value("image", ["N", 3, 12, 10], TensorProto.FLOAT16),
        outputs=[value("shares", ["N", CLASSES], TensorProto.FLOAT16)],
    )


def zoo(opset: int) -> ModelProto:
    """SqueezeNet of the ONNX zoo: initialisers are inputs too, softmax of (N, C, 1, 1)."""
    nodes, constants = features()
    nodes = [
        *nodes[:2],
        node("Conv", "relu last", "scores"),
        node("GlobalAveragePool", "scores", "pooled"),
        node("Softmax", "pooled", "softmaxout_1", axis=1),
    ]
    constants["last"] = drawn(CLASSES, 8, 1, 1)
    model = written(
        nodes,
        constants,
        image=value("image", [1, 3, 12, 10]),
        outputs=[value("softmaxout_1", [1, CLASSES, 1, 1])],
        opset=opset,
        ir=3,
    )
    model.graph.input.extend(
        value(name, list(np.shape(array))) for name, array in constants.items()
    )
    return model


def torch_legacy(*, traced_sizes: bool = False) -> ModelProto:
    """torch's exporter of TorchScript: `x.view(x.size(0), -1)` as Shape, Gather and Concat."""
    nodes, constants = features()
    if traced_sizes:
        nodes[-1:] = [
            node("Shape", "pool", "/Shape_output_0"),
            node("Constant", "", "/zero", value=numpy_helper.from_array(np.array(0))),
            node("Gather", "/Shape_output_0 /zero", "/Gather_output_0", axis=0),
            node("Unsqueeze", "/Gather_output_0 axis", "/Unsqueeze_output_0"),
            node("Concat", "/Unsqueeze_output_0 rest", "/Concat_output_0", axis=0),
            node("Reshape", "pool /Concat_output_0", "flat", allowzero=0),
        ]
        constants |= {"axis": np.array([0]), "rest": np.array([-1])}
    nodes.append(node("Gemm", "flat fc.weight fc.bias", "out", alpha=1.0, beta=1.0, transB=1))
    constants |= {"fc.weight": drawn(CLASSES, 8), "fc.bias": drawn(CLASSES)}
    return written(nodes, constants, opset=17)


def torch_dynamo(*, tail: str = "") -> ModelProto:
    """torch's exporter of today: batch 1, ReduceMean, `Reshape(allowzero=1)`, metadata."""
    nodes, constants = features()
    nodes[2:] = [
        node("ReduceMean", "relu axes", "mean", keepdims=1),
        node("Reshape", "mean shape", "view", allowzero=1),
        node("Gemm", "view fc.weight fc.bias", "linear", transB=1),
    ]
    constants |= {"axes": np.array([-1, -2]), "shape": np.array([1, 8])}
    constants |= {"fc.weight": drawn(CLASSES, 8), "fc.bias": drawn(CLASSES)}
    last = "linear"
    if tail:
        nodes.append(node(tail, "linear", "softmax", axis=-1))
        last = "softmax"
    model = written(
        nodes,
        constants,
        image=value("image", [1, 3, 12, 10]),
        outputs=[value(last, [1, CLASSES])],
        opset=18,
        ir=10,
    )
    for part in model.graph.node:
        part.metadata_props.add(key="pkg.torch.onnx.stack_trace", value="File net.py, line 3")
    return model


def matlab() -> ModelProto:
    """Batches of one under a name, softmax of maps and Flatten behind it."""
    nodes, constants = features()
    nodes = [
        *nodes[:3],
        node("Conv", "pool fc_W fc_B", "fc"),
        node("Softmax", "fc", "soft", axis=1),
        node("Flatten", "soft", "out", axis=1),
    ]
    constants |= {"fc_W": drawn(CLASSES, 8, 1, 1), "fc_B": drawn(CLASSES)}
    return written(nodes, constants, image=value("image", ["BatchSize", 3, 12, 10]), opset=14)


def two_outputs() -> ModelProto:
    """Scores and probabilities beside each other."""
    nodes, constants = features()
    nodes += [node("MatMul", "flat rows", "logits"), node("Softmax", "logits", "shares", axis=1)]
    outputs = [value("logits", ["N", CLASSES]), value("shares", ["N", CLASSES])]
    return written(nodes, constants | {"rows": drawn(8, CLASSES)}, outputs=outputs)


def of_class_numbers() -> ModelProto:
    """ArgMax behind the scores, which stay an output."""
    model = two_outputs()
    model.graph.node.append(node("ArgMax", "logits", "class", axis=1, keepdims=0))
    model.graph.output.insert(0, value("class", ["N"], TensorProto.INT64))
    return model


def in_a_sequence(*, as_tensor: bool) -> ModelProto:
    nodes, constants = features()
    nodes.append(node("MatMul", "flat rows", "logits"))
    constants |= {"rows": drawn(8, CLASSES)}
    if as_tensor:
        return written(nodes, constants, outputs=[value("logits", ["N", CLASSES])])
    nodes.append(node("SequenceConstruct", "logits", "list"))
    listed = helper.make_sequence_type_proto(helper.make_tensor_type_proto(TensorProto.FLOAT, None))
    return written(nodes, constants, outputs=[helper.make_value_info("list", listed)])


def with_function() -> ModelProto:
    """A layer as a local function."""
    nodes, constants = features()
    nodes.append(node("Head", "flat rows", "out", domain="my.layers"))
    model = written(nodes, constants | {"rows": drawn(8, CLASSES)}, domains={"my.layers": 1})
    inside = [node("MatMul", "x w", "z"), node("Softmax", "z", "y", axis=-1)]
    opsets = [helper.make_opsetid("", 15)]
    model.functions.append(
        helper.make_function("my.layers", "Head", ["x", "w"], ["y"], inside, opsets)
    )
    return model


def quantised(form: str, tail: Tail | None = None) -> ModelProto:
    """What ONNX Runtime's quantiser makes of a classifier: `QDQ`, `QOperator` or `dynamic`."""
    from onnxruntime import quantization

    model = classifier(CLASSES) if tail is None else with_tail(tail)
    with tempfile.TemporaryDirectory() as folder:
        source, made = Path(folder, "model.onnx"), Path(folder, "quantised.onnx")
        onnx.save(model, source)
        if form == "dynamic":
            quantization.quantize_dynamic(source, made)
            return onnx.load(made)

        class Reader(quantization.CalibrationDataReader):  # type: ignore[misc]
            def __init__(self) -> None:
                self._left = iter(noise_inputs(PICTURES, 6))

            def get_next(self) -> dict[str, Any] | None:
                picture = next(self._left, None)
                return None if picture is None else {"image": picture[None]}

        quantization.quantize_static(
            source, made, Reader(), quant_format=quantization.QuantFormat[form]
        )
        return onnx.load(made)


MAKERS = {
    "torch, legacy": torch_legacy,
    "torch, legacy, with sizes of the trace": lambda: torch_legacy(traced_sizes=True),
    "torch, dynamo": torch_dynamo,
    "torch, dynamo, softmax": lambda: torch_dynamo(tail="Softmax"),
    "torch, dynamo, log-softmax": lambda: torch_dynamo(tail="LogSoftmax"),
    "tf2onnx, softmax": tf2onnx,
    "tf2onnx, scores": lambda: tf2onnx("Identity"),
    "paddle2onnx, squeezed": paddle2onnx,
    "paddle2onnx, reshaped": lambda: paddle2onnx(squeezes=False),
    "onnxconverter-common, float16": lambda: halved(keep_io=True),
    "ONNX zoo, opset 7": lambda: zoo(7),
    "ONNX zoo, opset 9": lambda: zoo(9),
    "ONNX zoo, opset 12": lambda: zoo(12),
    "MATLAB": matlab,
    "quantiser, QDQ": lambda: quantised("QDQ"),
    "quantiser, QDQ, softmax": lambda: quantised("QDQ", softmax),
    "quantiser, QOperator": lambda: quantised("QOperator"),
    "quantiser, QOperator, softmax": lambda: quantised("QOperator", softmax),
}
"""Those that are taken as they come."""


def of_one_sample() -> list[ModelProto]:
    """Networks for one picture: a class token put before its tokens, a squeezed and a cut batch."""
    image, outputs = value("image", [1, 3, 12, 10]), [value("out", [1, CLASSES])]
    nodes, constants = features()
    row, end = drawn(8, CLASSES), node("MatMul", "chosen row", "out")
    shape, cut = np.array([1, 8, 80]), [np.array([number]) for number in (0, 1)]
    token = [
        *nodes[:2],
        node("Reshape", "relu shape", "wide"),
        node("Transpose", "wide", "tokens", perm=[0, 2, 1]),
        node("Concat", "first tokens", "all", axis=1),
        node("Softmax", "all", "mixed", axis=1),
        node("ReduceMean", "mixed", "means", axes=[1], keepdims=0),
        node("Mul", "means many", "chosen"),
        end,
    ]
    squeezed = [
        *nodes,
        node("Squeeze", "flat first", "bare"),
        node("Unsqueeze", "bare first", "chosen"),
        end,
    ]
    sliced = [*nodes, node("Slice", "flat first second first", "chosen"), end]
    more = constants | {"row": row, "first": cut[0], "second": cut[1]}
    made = [
        (token, constants | {"row": row, "shape": shape, "first": drawn(1, 1, 8)}),
        (squeezed, {name: array for name, array in more.items() if name != "second"}),
        (sliced, more),
    ]
    made[0][1]["many"] = np.float32(80)
    return [written(nodes, given, image=image, outputs=outputs) for nodes, given in made]


def detector(*, suppresses: bool) -> ModelProto:
    """Boxes of 8 x 8 pixels with a number each; or which of them are left by suppression."""
    nodes = [
        node("Conv", "image w", "cells", strides=[4, 5]),
        node("Reshape", "cells s", "rows"),
    ]
    constants: dict[str, Any] = {"w": drawn(5, 3, 4, 5), "s": np.array([0, 5, 6])}
    outputs = [value("rows", ["N", 5, 6])]
    if suppresses:
        nodes += [
            node("Split", "rows parts", "turned sure", axis=1),
            node("Transpose", "turned", "boxes", perm=[0, 2, 1]),
            node("NonMaxSuppression", "boxes sure most overlap least", "kept"),
        ]
        constants |= {"parts": np.array([4, 1]), "most": np.array([3])}
        constants |= {"overlap": np.float32([0.5]), "least": np.float32([-9])}
        outputs = [helper.make_tensor_value_info("kept", TensorProto.INT64, ["K", 3])]
    return written(nodes, constants, outputs=outputs)
