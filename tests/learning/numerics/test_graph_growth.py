"""What a graph makes at least is never more than it makes; what is refused is refused in words."""

from __future__ import annotations

import time
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleetledger.learning.errors import GraphGrowthError
from fleetledger.learning.numerics.graph_growth import _PRESERVING, _SIZED, Graph, least_sizes
from fleetledger.learning.numerics.graph_values import Node, Tensor

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402
from onnx.reference import ReferenceEvaluator  # noqa: E402

OPERATORS = sorted(
    {*_PRESERVING, *_SIZED, "Concat", "Gather", "Tile", "Pad", "Range", "Resize", "Shape", "Slice"}
    | {"Transpose", "Constant", "If", "Loop", "Scan", "Conv", "ConvTranspose", "OneHot", "MatMul"}
    | {"ReduceProd", "ReduceSum", "ReduceMax", "Pow", "Exp", "Log", "Sqrt", "Size", "Other"}
)
NAMES = st.sampled_from(["", "a", "b", "c", "d", "e"])
NUMBERS = st.one_of(
    st.integers(-3, 3), st.integers(-(2**63), 2**63 - 1), st.floats(width=32), st.just(float("nan"))
)


@st.composite
def tensors(draw: st.DrawFn) -> Tensor:
    values = tuple(draw(st.lists(NUMBERS, max_size=4)))
    shape = draw(st.sampled_from([(len(values),), (), (1, len(values)), (2, 2)]))
    return Tensor(shape, draw(st.sampled_from([values, None])))


ATTRIBUTE_NAMES = "axis pads kernel_shape shape perm starts ends start end num_scan_inputs"
ATTRIBUTES = st.dictionaries(
    st.sampled_from(ATTRIBUTE_NAMES.split()),
    st.lists(st.integers(-(2**63), 2**63 - 1), max_size=4).map(tuple),
    max_size=2,
)


@st.composite
def graphs(draw: st.DrawFn, depth: int = 1) -> Graph:
    found = Graph(("a",), (draw(NAMES),), draw(st.dictionaries(NAMES, tensors(), max_size=4)))
    for _ in range(draw(st.integers(1, 4))):
        inner = tuple(draw(st.lists(graphs(depth - 1), max_size=1))) if depth else ()
        node = Node(
            draw(st.sampled_from(OPERATORS)),
            tuple(draw(st.lists(NAMES, max_size=4))),
            tuple(draw(st.lists(NAMES, max_size=2))),
            draw(ATTRIBUTES),
            graphs=inner,
        )
        found.nodes.append(node)
    return found


LEFT_OUT = [("", "a"), ("", ""), ("a", ""), ("a",), ()]


@pytest.mark.parametrize("inputs", LEFT_OUT)
@pytest.mark.parametrize("operator", OPERATORS)
def test_an_operator_whose_inputs_are_left_out_is_measured_or_refused_in_words(
    operator: str, inputs: tuple[str, ...]
) -> None:
    graph = Graph(("a",), ("b",), {}, [Node(operator, inputs, ("b",), {"axis": ()})])
    with suppress(GraphGrowthError):
        assert least_sizes(graph, {"a": (None, 3)})[0] >= 0


@settings(max_examples=100)
@given(graphs())
def test_any_graph_is_measured_or_refused_in_words(graph: Graph) -> None:
    with suppress(GraphGrowthError):
        assert all(size >= 0 for size in least_sizes(graph, {"a": (None, 3)}))


def evaluated(nodes: list[Node[Graph]], constants: dict[str, np.ndarray]) -> int:
    """How many numbers the last node really makes."""
    made = [
        helper.make_node(
            node.operator,
            list(node.inputs),
            list(node.outputs),
            **{name: list(v) if name != "axis" else v[0] for name, v in node.numbers.items()},
        )
        for node in nodes
    ]
    last = nodes[-1].outputs[0]
    graph = helper.make_graph(
        made,
        "g",
        [],
        [helper.make_tensor_value_info(last, TensorProto.FLOAT, None)],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    (result,) = ReferenceEvaluator(model).run(None, {})
    return int(np.asarray(result).size)


SMALL = st.integers(1, 4)


@settings(max_examples=60)
@given(st.lists(st.tuples(st.sampled_from(["Tile", "Concat", "Expand", "Pad"]), SMALL), max_size=5))
def test_growth_from_one_operator_to_the_next_is_what_an_evaluator_gives(
    steps: list[tuple[str, int]],
) -> None:
    constants = {"x0": np.ones((2, 1), np.float32)}
    nodes: list[Node[Graph]] = [Node("Identity", ("x0",), ("y0",))]
    for place, (operator, size) in enumerate(steps):
        last, made, name = f"y{place}", (f"y{place + 1}",), f"s{place}"
        if operator == "Concat":
            nodes.append(Node("Concat", (last,) * size, made, {"axis": (0,)}))
            continue
        values = {"Tile": [size, 2], "Expand": [1, 1], "Pad": [0, size, 1, 0]}[operator]
        constants[name] = np.array(values, np.int64)
        nodes.append(Node(operator, (last, name), made))
    graph = Graph((), (nodes[-1].outputs[0],), nodes=nodes)
    for name, value in constants.items():
        graph.constants[name] = Tensor(value.shape, tuple(value.ravel().tolist()))
    (least,) = least_sizes(graph, {})
    real = evaluated(nodes, constants)
    assert least <= real
    if all(operator != "Pad" for operator, _ in steps):
        assert least == real


def looped(rounds: int, inner: Graph) -> Graph:
    constants = {"n": Tensor((), (rounds,)), "x": Tensor((3,), (1, 1, 1))}
    return Graph((), ("y",), constants, [Node("Loop", ("n", "", "x"), ("y",), graphs=(inner,))])


@pytest.mark.parametrize("operator", ["QuantizeLinear", "DequantizeLinear"])
def test_a_scale_for_each_channel_makes_weights_no_larger(operator: str) -> None:
    constants = {"weights": Tensor((4, 3, 1, 1)), "scales": Tensor((4,)), "zeros": Tensor((4,))}
    node: Node[Graph] = Node(operator, ("weights", "scales", "zeros"), ("made",))
    graph = Graph((), ("made",), constants, [node])
    assert least_sizes(graph, {}) == [12]


@pytest.mark.parametrize(("rounds", "size"), [(0, 3), (1, 6), (2, 9), (3, 12), (50, 153)])
def test_what_a_loop_adds_in_each_round_is_counted(rounds: int, size: int) -> None:
    adds = Graph(("i", "go", "v"), ("go", "w"), nodes=[Node("Concat", ("v", "x"), ("w",))])
    assert least_sizes(looped(rounds, adds), {}) == [size]


@pytest.mark.parametrize(("rounds", "size"), [(3, 24), (20, 3 * 2**20)])
def test_what_a_loop_doubles_in_each_round_is_counted(rounds: int, size: int) -> None:
    doubles = Graph(("i", "go", "v"), ("go", "w"), nodes=[Node("Concat", ("v", "v"), ("w",))])
    assert least_sizes(looped(rounds, doubles), {}) == [size]


def test_judging_the_worst_graph_costs_no_more_than_a_few_seconds_of_processor() -> None:
    inner = Graph(("i", "go", "v"), ("go", "v"), nodes=[Node("Add", ("v", "v"), ("w",))] * 2500)
    for _ in range(7):
        loop: Node[Graph] = Node("Loop", ("n", "", "v"), ("w",), graphs=(inner,))
        inner = Graph(("i", "go", "v"), ("go", "v"), {"n": Tensor((), (3,))}, [loop] * 3)
    began = time.process_time()
    with pytest.raises(GraphGrowthError, match="run more than"):
        least_sizes(looped(3, inner), {})
    assert time.process_time() - began < 20
