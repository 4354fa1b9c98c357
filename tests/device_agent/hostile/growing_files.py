"""Small ONNX files that make terabytes, or never end: each with words of its refusal."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, helper
from onnx.numpy_helper import from_array

from tests.device_agent.hostile.onnx_files import edited

Make = Callable[[], bytes]
TOO_MANY = "at most 268435456"
NO_SIZE = "whose size no constant or shape gives"
NO_ROUNDS = "no constant number of rounds"
INPUT = "input"


def integers(name: str, *values: int) -> TensorProto:
    return from_array(np.array(values, np.int64), name)


def floats(name: str, *values: float) -> TensorProto:
    return from_array(np.array(values, np.float32), name)


def ones(name: str, *shape: int) -> TensorProto:
    return from_array(np.ones(shape, np.float32), name)


def with_nodes(*nodes: NodeProto, tensors: tuple[TensorProto, ...] = ()) -> Make:
    """The good file with more in its graph, in front, where it is in order."""

    def edit(model: ModelProto) -> None:
        former = list(model.graph.node)
        del model.graph.node[:]
        model.graph.node.extend([*nodes, *former])
        model.graph.initializer.extend(tensors)

    return edited(edit)


def one(
    operator: str, *tensors: TensorProto, given: tuple[str, ...] = (), **values: object
) -> Make:
    """One operator that takes the tensors, or what is named."""
    names = given or tuple(tensor.name for tensor in tensors)
    return with_nodes(helper.make_node(operator, names, ["made"], **values), tensors=tensors)


def body(*nodes: NodeProto, handed: tuple[str, ...] = ("x",), out: str = "y") -> GraphProto:
    """A loop's body that hands on a value, under the names `x` and `out`."""
    value = helper.make_tensor_value_info
    inputs = [value("i", TensorProto.INT64, []), value("go", TensorProto.BOOL, [])]
    inputs += [value(name, TensorProto.FLOAT, None) for name in handed]
    outputs = [value("go", TensorProto.BOOL, []), value(out, TensorProto.FLOAT, None)]
    return helper.make_graph(list(nodes), "body", inputs, outputs)


def collecting() -> GraphProto:
    """A body that hands a value on, and puts it behind the others of all rounds."""
    made = body(keep())
    made.output.append(helper.make_tensor_value_info("y", TensorProto.FLOAT, None))
    return made


def keep() -> NodeProto:
    return helper.make_node("Identity", ["x"], ["y"])


def loop(trips: str, inner: GraphProto, made: str = "made") -> NodeProto:
    return helper.make_node("Loop", [trips, "", "start"], [made], body=inner)


def looping(count: int | None, inner: GraphProto) -> Make:
    tensors = (ones("start", 1),) + (() if count is None else (integers("trips", count),))
    return with_nodes(loop("" if count is None else "trips", inner), tensors=tensors)


def loops_in_loops(depth: int, count: int) -> Make:
    """Each of few rounds; together they are many."""
    inner = body(keep())
    for number in range(depth):
        node = helper.make_node("Loop", ["trips", "", "x"], ["y"], body=inner, name=f"l{number}")
        inner = body(node)
    tensors = (ones("start", 1), integers("trips", count))
    return with_nodes(loop("trips", inner), tensors=tensors)


def doubled(times: int) -> Make:
    names = ["start", *(f"d{number}" for number in range(times))]
    nodes = [
        helper.make_node("Concat", [name, name], [following], axis=0)
        for name, following in itertools.pairwise(names)
    ]
    return with_nodes(*nodes, tensors=(ones("start", 1),))


def tiled_step_by_step() -> Make:
    nodes = [
        helper.make_node("Tile", [f"t{number}", "twice"], [f"t{number + 1}"]) for number in range(4)
    ]
    return with_nodes(*nodes, tensors=(ones("t0", 1), integers("twice", 1 << 10)))


def chosen(*nodes: NodeProto, tensors: tuple[TensorProto, ...]) -> Make:
    """In one side of a choice that the input decides."""
    value = helper.make_tensor_value_info
    side = helper.make_graph(list(nodes), "side", [], [value("made", TensorProto.FLOAT, None)])
    other = helper.make_graph(
        [helper.make_node("Identity", ["start"], ["other"])],
        "other",
        [],
        [value("other", TensorProto.FLOAT, None)],
    )
    choice = helper.make_node("If", ["yes"], ["chosen"], then_branch=other, else_branch=side)
    yes = from_array(np.array(True), "yes")
    return with_nodes(choice, tensors=(*tensors, yes, ones("start", 1)))


def scanning(rows: int) -> Make:
    value = helper.make_tensor_value_info
    inner = helper.make_graph(
        [helper.make_node("Identity", ["row"], ["out"])],
        "body",
        [value("row", TensorProto.FLOAT, None)],
        [value("out", TensorProto.FLOAT, None)],
    )
    return with_nodes(
        helper.make_node("ConstantOfShape", ["rows"], ["zeros"]),
        helper.make_node("Scan", ["zeros"], ["made"], body=inner, num_scan_inputs=1),
        tensors=(integers("rows", rows, 1),),
    )


def folded(*steps: tuple[str, tuple[str, ...]], tensors: tuple[TensorProto, ...]) -> Make:
    """A size that is computed of constants, step by step; the last one is called `size`."""
    nodes = []
    for place, (operator, given) in enumerate(steps):
        made = "size" if place + 1 == len(steps) else f"s{place}"
        extra = {"axis": 0} if operator in ("Concat", "Gather") else {}
        extra |= {"to": TensorProto.INT64} if operator == "Cast" else {}
        nodes.append(helper.make_node(operator, list(given), [made], **extra))
    return with_nodes(
        *nodes, helper.make_node("ConstantOfShape", ["size"], ["made"]), tensors=tensors
    )


def constant(number: int) -> NodeProto:
    return helper.make_node("Constant", [], ["size"], value_ints=[number])


def by_hand(number: int) -> TensorProto:
    """A size in packed varints, not in raw bytes."""
    return TensorProto(name="size", data_type=TensorProto.INT64, dims=[1], int64_data=[number])


def long_attribute(node: NodeProto) -> NodeProto:
    """An attribute whose numbers do not lie packed."""
    node.attribute.append(
        AttributeProto(name="shape", type=AttributeProto.INTS, ints=[1 << 20] * 2)
    )
    return node


LARGE, HUGE = 1 << 20, 1 << 40
GROWING_FILES: dict[str, tuple[Make, str]] = {
    "a loop of 2^62 rounds": (looping(1 << 62, body(keep())), "rounds; at most 65536"),
    "a loop without a number of rounds": (looping(None, body(keep())), NO_ROUNDS),
    "a loop whose rounds the picture decides": (
        with_nodes(
            helper.make_node("ReduceMax", [INPUT], ["top"], keepdims=0),
            helper.make_node("Cast", ["top"], ["trips"], to=TensorProto.INT64),
            loop("trips", body(keep())),
            tensors=(ones("start", 1),),
        ),
        NO_ROUNDS,
    ),
    "a loop whose rounds the picture's shape decides": (
        with_nodes(
            helper.make_node("Size", [INPUT], ["trips"]),
            loop("trips", body(keep())),
            tensors=(ones("start", 1),),
        ),
        NO_ROUNDS,
    ),
    "five loops of a hundred rounds, inside each other": (
        loops_in_loops(5, 100),
        "run more than 100000 operators",
    ),
    "a loop that doubles what it hands on": (
        looping(64, body(helper.make_node("Concat", ["x", "x"], ["y"], axis=0))),
        TOO_MANY,
    ),
    "a loop that collects a row of a million, a thousand times": (
        with_nodes(
            loop("trips", collecting(), "end"),
            tensors=(ones("start", LARGE), integers("trips", 1000)),
        ),
        TOO_MANY,
    ),
    "a constant of 2^40 numbers": (one("ConstantOfShape", integers("size", HUGE)), TOO_MANY),
    "a constant of many axes": (one("ConstantOfShape", integers("size", *[64] * 8)), TOO_MANY),
    "a constant whose size a node holds": (
        with_nodes(constant(HUGE), helper.make_node("ConstantOfShape", ["size"], ["made"])),
        TOO_MANY,
    ),
    "a constant whose size is in varints": (one("ConstantOfShape", by_hand(HUGE)), TOO_MANY),
    "a size that is multiplied": (
        folded(("Mul", ("a", "a")), tensors=(integers("a", LARGE),)),
        TOO_MANY,
    ),
    "a size that is put together": (
        folded(("Concat", ("a", "a", "a")), tensors=(integers("a", 1 << 12),)),
        TOO_MANY,
    ),
    "a size that is a power of floats": (
        folded(("Pow", ("a", "b")), ("Cast", ("s0",)), tensors=(floats("a", 2), floats("b", 40))),
        TOO_MANY,
    ),
    "a size that is turned around": (
        folded(
            ("Reshape", ("a", "two")),
            ("Transpose", ("s0",)),
            ("Reshape", ("s1", "all")),
            tensors=(integers("a", LARGE, LARGE), integers("two", 1, 2), integers("all", -1)),
        ),
        TOO_MANY,
    ),
    "a size of the picture's shape and a large constant": (
        folded(
            ("Shape", (INPUT,)),
            ("Gather", ("s0", "first")),
            ("Concat", ("s1", "a")),
            tensors=(integers("first", 0), integers("a", HUGE)),
        ),
        TOO_MANY,
    ),
    "a size that the picture decides": (
        folded(
            ("ReduceSum", (INPUT,)),
            ("Cast", ("s0",)),
            ("Reshape", ("s1", "all")),
            tensors=(integers("all", -1),),
        ),
        NO_SIZE,
    ),
    "a size that is no number": (
        folded(("Cast", ("a",)), tensors=(floats("a", float("inf")),)),
        NO_SIZE,
    ),
    "expanded to 2^40": (one("Expand", ones("a", 1), integers("s", HUGE)), TOO_MANY),
    "tiled 2^40 times": (one("Tile", ones("a", 1), integers("s", HUGE)), TOO_MANY),
    "tiled a thousand times, four times": (tiled_step_by_step(), TOO_MANY),
    "doubled forty times": (doubled(40), TOO_MANY),
    "a range of 2^40": (
        one("Range", integers("a", 0), integers("b", HUGE), integers("c", 1)),
        TOO_MANY,
    ),
    "a range of tiny steps": (
        one("Range", floats("a", 0), floats("b", 1), floats("c", 1e-12)),
        TOO_MANY,
    ),
    "a range that stands still": (
        one("Range", floats("a", 0), floats("b", 1), floats("c", 0)),
        "by 0",
    ),
    "padded by 2^40": (one("Pad", ones("a", 1), integers("s", 0, HUGE)), TOO_MANY),
    "padded by attributes": (one("Pad", ones("a", 1, 1), pads=[0, 0, LARGE, LARGE]), TOO_MANY),
    "a convolution padded by 2^20 on each side": (
        one(
            "Conv",
            ones("w", 1, 1, 1, 1),
            given=(INPUT, "w"),
            kernel_shape=[1, 1],
            pads=[LARGE] * 4,
        ),
        TOO_MANY,
    ),
    "a transposed convolution that spreads": (
        one(
            "ConvTranspose",
            ones("w", 1, 1, 2, 2),
            given=(INPUT, "w"),
            kernel_shape=[2, 2],
            dilations=[LARGE, LARGE],
        ),
        TOO_MANY,
    ),
    "resized by 2^20 each way": (
        one("Resize", floats("s", 1, 1, LARGE, LARGE), given=(INPUT, "", "s")),
        TOO_MANY,
    ),
    "resized to 2^40": (
        one("Resize", integers("s", 1, 1, LARGE, LARGE), given=(INPUT, "", "", "s")),
        TOO_MANY,
    ),
    "upsampled by attributes": (
        one("Upsample", given=(INPUT,), scales=[1.0, 1.0, 1e6, 1e6]),
        TOO_MANY,
    ),
    "2^40 random numbers": (
        with_nodes(long_attribute(helper.make_node("RandomNormal", [], ["m"]))),
        TOO_MANY,
    ),
    "uniform ones": (one("RandomUniform", shape=[HUGE]), TOO_MANY),
    "drawn 2^40 times": (one("Multinomial", given=(INPUT,), sample_size=HUGE), TOO_MANY),
    "one of 2^40": (
        one("OneHot", integers("a", 1), integers("d", HUGE), floats("v", 0, 1)),
        TOO_MANY,
    ),
    "a window of 2^40": (one("HannWindow", integers("s", HUGE)), TOO_MANY),
    "columns times rows": (one("MatMul", ones("a", LARGE, 1), ones("b", 1, LARGE)), TOO_MANY),
    "columns against rows": (one("Add", ones("a", LARGE, 1), ones("b", 1, LARGE)), TOO_MANY),
    "scanned 2^20 times": (scanning(LARGE), "'Scan' has 1048576 rounds"),
    "in one side of a choice": (
        chosen(
            helper.make_node("Expand", ["start", "s"], ["made"]), tensors=(integers("s", HUGE),)
        ),
        TOO_MANY,
    ),
    "in a loop": (
        with_nodes(
            loop("trips", body(helper.make_node("Expand", ["x", "s"], ["y"]))),
            tensors=(ones("start", 1), integers("trips", 2), integers("s", HUGE)),
        ),
        TOO_MANY,
    ),
}
