"""How many numbers a graph of tensors makes at least, by what stands in it and nothing else.

A few operators make much of little: `ConstantOfShape` of one number, a `Loop` of another. Their
sizes are computed, with Python's integers, from constants and shapes; an axis that nothing tells
counts as 1. So what is found is a lower bound. Sizes that depend on what the graph is given, and
rounds that no constant gives, are refused, because nothing bounds them.

What is followed: constants, initializers, `Shape`, arithmetic on small vectors, growth from one
operator to the next (`Concat` of a value with itself, forty times), both sides of `If`, bodies of
`Loop` and `Scan` with their rounds, also inside each other. What is not: growth that only the data
knows, such as that of `NonZero`, and shapes behind convolutions; that is for a trial with a limit.
"""

from __future__ import annotations

import math
from collections import ChainMap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from fleetledger.learning.errors import GraphGrowthError
from fleetledger.learning.numerics.graph_values import (
    CONSTANT,
    DATA,
    SHAPE,
    Known,
    Node,
    Tensor,
    computed,
    joined,
    stored,
    whole,
)

MAX_NUMBERS = 1 << 28
"""Numbers that an operator may make; of float32 that is a gibibyte."""
MAX_ROUNDS = 1 << 16
"""Rounds of one loop."""
MAX_RUNS = 100_000
"""Runs of operators, those in loops counted as often as they are run."""
_SIMULATED = 3
"""Rounds of a loop that are followed, to see how fast what it hands on grows."""

Names = ChainMap[str, Known]
"""What a graph can name, the graphs around it behind."""

_PRESERVING = frozenset(
    """
    Abs Acos Acosh Add And Asin Asinh Atan Atanh BatchNormalization Bernoulli BitShift
    BitwiseAnd BitwiseNot BitwiseOr BitwiseXor Cast CastLike Ceil Celu Clip Cos Cosh CumSum
    DepthToSpace DequantizeLinear Div Dropout DynamicQuantizeLinear Elu Equal Erf Exp EyeLike
    Flatten Floor Gelu Greater GreaterOrEqual GroupNormalization HardSigmoid HardSwish Hardmax
    Identity InstanceNormalization IsInf IsNaN LRN LayerNormalization LeakyRelu Less
    LessOrEqual Log LogSoftmax Max Mean MeanVarianceNormalization Min Mish Mod Mul Neg Not Or
    PRelu Pow QuantizeLinear RandomNormalLike RandomUniformLike Reciprocal Relu Reshape
    ReverseSequence Round ScatterElements ScatterND Selu Shrink Sigmoid Sign Sin Sinh Softmax
    Softplus Softsign SpaceToDepth Sqrt Squeeze Sub Sum Swish Tan Tanh ThresholdedRelu
    Transpose Trilu Unsqueeze Where Xor
    """.split()  # noqa: SIM905 - a list of a hundred quoted names would be a page
)
"""Operators that give at least as many numbers as the largest thing that they are given."""
_SCALED = frozenset({"DequantizeLinear", "QuantizeLinear"})
"""Of these, scales and zero points go along one axis: they make nothing larger."""
_SIZED = {
    "ConstantOfShape": 0,
    "Expand": 1,
    "CenterCropPad": 1,
    "MaxUnpool": 2,
    "Col2Im": 1,
    "HannWindow": 0,
    "HammingWindow": 0,
    "BlackmanWindow": 0,
}
"""Operators of which an input is the size of what they make, and which one it is."""
_SIZES = {
    "RandomNormal": ("shape",),
    "RandomUniform": ("shape",),
    "Multinomial": ("sample_size",),
    "RoiAlign": ("output_height", "output_width"),
}
"""Operators of which attributes are the size of what they make."""
_POOLS = frozenset({"Conv", "AveragePool", "LpPool", "MaxPool", "ConvInteger", "QLinearConv"})


@dataclass
class Graph:
    """Nodes in their order, with what they can name."""

    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    constants: dict[str, Tensor] = field(default_factory=dict)
    nodes: list[Node[Graph]] = field(default_factory=list)


def least_sizes(graph: Graph, shapes: dict[str, tuple[int | None, ...]]) -> list[int]:
    """Return how many numbers each output of a graph has at least.

    `shapes` are those of the graph's inputs, None for an axis that is free. Raises
    `GraphGrowthError` naming the operator that makes too much, or runs too long.
    """
    names: Names = ChainMap()
    for name in graph.inputs:
        axes = shapes.get(name)
        known = None if axes is None else tuple(1 if axis is None else axis for axis in axes)
        names[name] = Known(math.prod(known or ()), known, DATA)
    return [known.numbers for known in _Walk().follow(graph, names, 1)]


class _Walk:
    """One pass through a graph and those inside it."""

    def __init__(self) -> None:
        self._runs = 0

    def follow(self, graph: Graph, names: Names, times: int) -> list[Known]:
        """Return what a graph's outputs are, given what it can name, if it is run so often."""
        for name, tensor in graph.constants.items():
            names[name] = stored(tensor)
        for node in graph.nodes:
            self._runs += times
            if self._runs > MAX_RUNS:
                raise GraphGrowthError(f"its loops run more than {MAX_RUNS} operators")
            made = self._made(node, names, times)
            for name, known in zip(node.outputs, made, strict=False):
                names[name] = known
        nothing = Known(1, None, DATA)
        return [names.get(name, nothing) for name in graph.outputs]

    def _made(self, node: Node[Graph], names: Names, times: int) -> list[Known]:
        given = [names.get(name, Known(1, None, DATA)) if name else None for name in node.inputs]
        match node.operator:
            case "If":
                return self._branches(node, names, times)
            case "Loop":
                return self._loop(node, given, names, times)
            case "Scan":
                return self._scan(node, given, names, times)
        for body in node.graphs:
            self.follow(body, _inside(body, names), times)
        return [_limited(node, self._made_at_once(node, given))] * max(len(node.outputs), 1)

    def _made_at_once(self, node: Node[Graph], given: list[Known | None]) -> Known:
        followed = computed(node, given)
        if followed is not None:
            return followed
        numbers = max(_size(node, given), _elementwise(node, given), 1)
        origin = max((item.origin for item in given if item is not None), default=DATA)
        if node.operator == "ConstantOfShape" and given and given[0] is not None:
            shape = given[0].values
            whole = tuple(map(int, shape)) if shape and given[0].origin == CONSTANT else None
            return Known(numbers, whole, origin)
        return Known(numbers, None, origin)

    def _branches(self, node: Node[Graph], names: Names, times: int) -> list[Known]:
        sides = [self.follow(graph, names.new_child(), times) for graph in node.graphs]
        return [
            Known(max(side.numbers for side in together), None, DATA)
            for together in zip(*sides, strict=False)
        ]

    def _loop(
        self, node: Node[Graph], given: list[Known | None], names: Names, times: int
    ) -> list[Known]:
        rounds = _rounds(given[0] if given else None)
        carried = [item or Known(1, None, DATA) for item in given[2:]]
        for body in node.graphs:
            return self._repeated(node, body, carried, names, (rounds, times, 2))
        return []

    def _scan(
        self, node: Node[Graph], given: list[Known | None], names: Names, times: int
    ) -> list[Known]:
        scanned = max(whole(node, "num_scan_inputs", 0), 0)
        states = max(len(given) - scanned, 0)
        along = [item.shape[0] for item in given[states:] if item is not None and item.shape]
        rounds = max(along, default=1)
        _check_rounds("Scan", rounds)
        carried = [item or Known(1, None, DATA) for item in given[:states]]
        for body in node.graphs:
            return self._repeated(node, body, carried, names, (rounds, times, 0))
        return []

    def _repeated(
        self,
        node: Node[Graph],
        body: Graph,
        carried: list[Known],
        names: Names,
        how: tuple[int, int, int],
    ) -> list[Known]:
        """Return what a body's rounds make: what is handed on, and what is collected of each.

        `how` is the number of rounds, of runs of the node, and of inputs before what is handed on.
        """
        rounds, times, before = how
        if not rounds:
            return carried
        sizes = [[item.numbers for item in carried]]
        followed = min(rounds, _SIMULATED)
        made: list[Known] = []
        for turn in range(followed):
            share = rounds - followed + 1 if turn == followed - 1 else 1
            made = self._round(body, sizes[-1], names, (before, times * share))
            sizes.append([item.numbers for item in made[before and 1 :][: len(carried)]])
        handed = [
            Known(_extrapolated(list(growth), rounds), None, DATA)
            for growth in zip(*sizes, strict=False)
        ]
        collected = made[(before and 1) + len(carried) :]
        rows = [Known(item.numbers * rounds, None, DATA) for item in collected]
        return [_limited(node, item) for item in (*handed, *rows)]

    def _round(
        self, body: Graph, sizes: list[int], names: Names, how: tuple[int, int]
    ) -> list[Known]:
        before, times = how
        inside = _inside(body, names)
        for name, numbers in zip(body.inputs[before:], sizes, strict=False):
            inside[name] = Known(numbers, None, DATA)
        return self.follow(body, inside, times)


def _inside(body: Graph, names: Names) -> Names:
    """Return what a body can name: what is around it, and its inputs, of which nothing is known."""
    return names.new_child(dict.fromkeys(body.inputs, Known(1, None, DATA)))


def _rounds(wanted: Known | None) -> int:
    """Return the rounds of a loop; raise `GraphGrowthError` where no constant gives them."""
    if wanted is None or wanted.origin != CONSTANT or not wanted.values:
        raise GraphGrowthError(
            "operator 'Loop' has no constant number of rounds; export it with loops unrolled"
        )
    rounds = max(int(wanted.values[0]), 0)
    _check_rounds("Loop", rounds)
    return rounds


def _check_rounds(operator: str, rounds: int) -> None:
    if rounds > MAX_ROUNDS:
        raise GraphGrowthError(f"operator {operator!r} has {rounds} rounds; at most {MAX_ROUNDS}")


def _extrapolated(growth: list[int], rounds: int) -> int:
    """Return the size after all rounds, of the sizes before the first and after each followed one.

    Growth by equal steps goes on by them, faster growth by its last factor.
    """
    if len(growth) <= _SIMULATED or rounds <= _SIMULATED or growth[-1] <= growth[-2]:
        return growth[-1]
    first, last = growth[-2] - growth[-3], growth[-1] - growth[-2]
    if last <= first:
        return growth[-1] + last * (rounds - _SIMULATED)
    doublings = (rounds - _SIMULATED) * math.log2(growth[-1] / growth[-2])
    return growth[-1] << min(int(doublings), 64)


def _limited(node: Node[Graph], made: Known) -> Known:
    if made.numbers > MAX_NUMBERS:
        raise GraphGrowthError(
            f"operator {node.operator!r} makes {_words(made.numbers)} numbers; at most "
            f"{MAX_NUMBERS}"
        )
    return made


def _words(number: int) -> str:
    return str(number) if number < 1 << 64 else "more than 2^64"


def _elementwise(node: Node[Graph], given: list[Known | None]) -> int:
    """Return the numbers that follow from the sizes of what is given."""
    sizes = [item.numbers for item in given if item is not None]
    shapes = [item.shape for item in given if item is not None]
    if node.operator == "Concat":
        return sum(sizes)
    if node.operator == "Gather":
        return _gathered(node, given)
    if node.operator in ("MatMul", "Gemm") and len(shapes) > 1:
        return joined(shapes[0], shapes[1])
    if node.operator not in _PRESERVING or not sizes:
        return 0
    if node.operator in _SCALED:
        return sizes[0]
    return max(*sizes, _broadcast(shapes))


def _gathered(node: Node[Graph], given: list[Known | None]) -> int:
    """Return the numbers of a table's rows that indices name; 0 where either is left out."""
    table, indices = (*given, None, None)[:2]
    if table is None or indices is None:
        return 0
    axis = whole(node, "axis", 0)
    row = table.numbers // max(table.shape[axis % len(table.shape)], 1) if table.shape else 1
    return indices.numbers * max(row, 1)


def _broadcast(shapes: Sequence[tuple[int, ...] | None]) -> int:
    """Return the size of shapes against each other, where all are known."""
    known = [shape for shape in shapes if shape is not None]
    if len(known) < 2 or len(known) < len(shapes):
        return 0
    rank = max(map(len, known))
    axes = zip(*((1,) * (rank - len(shape)) + shape for shape in known), strict=True)
    return math.prod(max(axis) for axis in axes)


def _size(node: Node[Graph], given: list[Known | None]) -> int:
    """Return the numbers that an operator's own sizes say it makes; 0 for one that has none."""
    first = given[0].numbers if given and given[0] is not None else 1
    match node.operator:
        case "Tile" | "OneHot":
            return first * _factors(node, given, 1)
        case "Pad":
            own = node.numbers.get("pads") or node.numbers.get("paddings")
            pads = _values(node, given, 1) if own is None else own
            return _padded(pads, first)
        case "Range":
            return _length(node, given)
        case "Resize" | "Upsample":
            return _resized(node, given, first)
        case "AffineGrid":
            sides = _values(node, given, 1)
            return _positive(sides[:1] + sides[2:])
        case operator if operator in _SIZED:
            return max(_factors(node, given, _SIZED[operator]), first * (operator == "Expand"))
    return _size_of_attributes(node)


def _size_of_attributes(node: Node[Graph]) -> int:
    """Return the numbers that an operator's attributes alone say it makes, or 0."""
    if node.operator in _POOLS:
        return _pooled(node)
    if node.operator == "ConvTranspose":
        return _transposed(node)
    return _positive([size for name in _SIZES.get(node.operator, ()) for size in _all(node, name)])


def _all(node: Node[Graph], name: str) -> tuple[int, ...]:
    return node.numbers.get(name, ())


def _values(node: Node[Graph], given: list[Known | None], place: int) -> tuple[float, ...]:
    """Return a size that an input gives, () where shapes give it in a way that is not followed.

    Raises `GraphGrowthError` where it depends on what the graph is given.
    """
    wanted = given[place] if place < len(given) else None
    if wanted is None or wanted.origin == SHAPE:
        return () if wanted is None else wanted.values or ()
    if wanted.values is None:
        raise GraphGrowthError(
            f"operator {node.operator!r} makes a tensor whose size no constant or shape gives; "
            "export it with sizes fixed"
        )
    return wanted.values


def _factors(node: Node[Graph], given: list[Known | None], place: int) -> int:
    return _positive(_values(node, given, place))


def _positive(sizes: Sequence[float]) -> int:
    """Return the product of sizes, of which one that is not above 0 says nothing."""
    return math.prod(int(size) for size in sizes if size > 1)


def _padded(pads: Sequence[float], first: int) -> int:
    half = len(pads) // 2
    sides = zip(pads[:half], pads[half:], strict=False)
    return max(first, math.prod(max(int(1 + begin + end), 1) for begin, end in sides))


def _length(node: Node[Graph], given: list[Known | None]) -> int:
    ends = [_values(node, given, place)[:1] for place in range(3)]
    if not all(ends):
        return 1
    begin, end, step = (values[0] for values in ends)
    if step == 0 or not all(map(math.isfinite, (begin, end, step))):
        raise GraphGrowthError(f"operator 'Range' goes from {begin} to {end} by {step}")
    return max(math.ceil((end - begin) / step) if step % 1 else int((end - begin) // step), 1)


def _resized(node: Node[Graph], given: list[Known | None], first: int) -> int:
    scales = node.floats.get("scales", ())
    places = (1,) if len(given) == 2 else (2, 3)
    sizes: tuple[float, ...] = ()
    for place in () if scales else places:
        if place < len(given) and given[place] is not None and given[place].numbers:  # type: ignore[union-attr]
            scales = _values(node, given, place) if place < 3 else scales
            sizes = _values(node, given, place) if place == 3 else sizes
    if not all(map(math.isfinite, scales)):
        raise GraphGrowthError(f"operator {node.operator!r} scales by what is no number")
    grown = math.prod(int(scale) for scale in scales if scale >= 1)
    return max(first * grown if scales else 1, _positive(sizes))


def _spread(node: Node[Graph]) -> Iterator[tuple[int, int, int, int]]:
    """Yield for each axis of a window: its extent, both pads together, its step, what is added."""
    kernel, pads = _all(node, "kernel_shape"), _all(node, "pads")
    rank = len(kernel) or len(pads) // 2
    for axis in range(rank):
        size = kernel[axis] if axis < len(kernel) else 1
        extent = (size - 1) * _axis(node, "dilations", axis, 1) + 1
        both = pads[axis] + pads[axis + rank] if len(pads) >= 2 * rank else 0
        yield (
            extent,
            both,
            max(_axis(node, "strides", axis, 1), 1),
            _axis(node, "output_padding", axis, 0),
        )


def _axis(node: Node[Graph], name: str, axis: int, default: int) -> int:
    values = _all(node, name)
    return values[axis] if axis < len(values) else default


def _pooled(node: Node[Graph]) -> int:
    return math.prod(
        max((1 + both - extent) // step + 1, 1) for extent, both, step, _ in _spread(node)
    )


def _transposed(node: Node[Graph]) -> int:
    made = math.prod(max(extent + more - both, 1) for extent, both, _, more in _spread(node))
    return max(made, _positive(_all(node, "output_shape")))
