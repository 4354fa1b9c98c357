"""What is known of the values in a graph of tensors: sizes, and small vectors of sizes by content.

Content is computed with Python's numbers, which do not overflow, and only of vectors with at most
`MAX_FOLLOWED` numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeVar

import numpy as np

MAX_FOLLOWED = 64
"""Numbers of a tensor whose content is followed; sizes have one for each axis."""
_FARTHEST = 1 << 30
_LARGEST = 1 << 256
"""Numbers beyond are followed no further: nothing that fits has such."""

CONSTANT, SHAPE, DATA = 0, 1, 2
"""Where a value comes from: constants alone, shapes too, or what the graph is given."""

Inner = TypeVar("Inner")


class Tensor(NamedTuple):
    """A tensor that is stored in a graph."""

    shape: tuple[int, ...]
    values: tuple[float, ...] | None = None
    """Its content, where it is small; integers are exact."""

    @property
    def numbers(self) -> int:
        """How many it has."""
        return math.prod(self.shape)


@dataclass
class Node(Generic[Inner]):
    """An operator with what it takes and makes, by name; an empty name stands for nothing."""

    operator: str
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    numbers: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """Attributes that are integers, or one."""
    floats: dict[str, tuple[float, ...]] = field(default_factory=dict)
    tensors: dict[str, Tensor] = field(default_factory=dict)
    graphs: tuple[Inner, ...] = ()


class Known(NamedTuple):
    """What is known of a value."""

    numbers: int
    """How many it has at least."""
    shape: tuple[int, ...] | None
    """None where an axis is unknown."""
    origin: int
    values: tuple[float, ...] | None = None
    """Its content; an axis of a shape that nothing tells counts as 1."""


def joined(left: tuple[int, ...] | None, right: tuple[int, ...] | None) -> int:
    """Return the numbers of a product of matrices, 0 where their shapes are not known."""
    if not left or not right or len(left) < 2 or len(right) < 2:
        return 0
    return left[-2] * right[-1] * max(math.prod(left[:-2]), math.prod(right[:-2]))


def stored(tensor: Tensor) -> Known:
    """Return what is known of a tensor in a graph; its content only where it can be sizes."""
    values = tensor.values
    if values is not None and not (
        len(values) == tensor.numbers <= MAX_FOLLOWED and all(map(_is_followed, values))
    ):
        values = None
    return Known(tensor.numbers, tensor.shape, CONSTANT, values)


def computed(node: Node[Inner], given: list[Known | None]) -> Known | None:
    """Return what an operator makes of small vectors, None where it is not followed."""
    if node.operator == "Constant":
        return _constant(node)
    if node.operator in ("Shape", "Size") and given and given[0] is not None:
        return _measured(node, given[0])
    items = [item for item in given if item is not None]
    origin = max((item.origin for item in items), default=DATA)
    if not items or origin == DATA:
        return None
    if node.operator == "Concat":
        return _concatenated(items, origin)
    if node.operator == "Gather":
        return _gathered(items, origin)
    if node.operator in ("Reshape", "Slice", "Transpose"):
        return _shuffled(node, given, origin)
    contents = [item.values for item in items]
    if any(values is None for values in contents):
        return None
    made = _content(node, [values for values in contents if values is not None])
    if made is None or len(made) > MAX_FOLLOWED or any(not _is_followed(value) for value in made):
        return None
    return Known(len(made), (len(made),), origin, made)


def _is_followed(value: float) -> bool:
    return math.isfinite(value) and abs(value) <= _LARGEST


def _constant(node: Node[Inner]) -> Known | None:
    if "value" in node.tensors:
        return stored(node.tensors["value"])
    for name in ("value_int", "value_ints"):
        if name in node.numbers:
            return _vector(node.numbers[name])
    for name in ("value_float", "value_floats"):
        if name in node.floats:
            return _vector(node.floats[name])
    return None


def _vector(values: tuple[float, ...]) -> Known:
    return stored(Tensor((len(values),), values))


def whole(node: Node[Inner], name: str, otherwise: int) -> int:
    """Return an attribute that is one integer; a hostile graph may hold it as a list of none."""
    return next(iter(node.numbers.get(name, ())), otherwise)


def _measured(node: Node[Inner], item: Known) -> Known:
    """Return a shape, or the product of one."""
    if item.shape is None or len(item.shape) > MAX_FOLLOWED:
        values = (max(item.numbers, 1),) if node.operator == "Size" else None
        return Known(1, None, SHAPE, values)
    if node.operator == "Size":
        return Known(1, (), SHAPE, (math.prod(item.shape),))
    begin = whole(node, "start", 0)
    end = whole(node, "end", len(item.shape))
    shape = item.shape[begin:end]
    return Known(len(shape), (len(shape),), SHAPE, shape)


def _concatenated(items: list[Known], origin: int) -> Known | None:
    """Return vectors behind each other; a shape of unknown length adds nothing."""
    if any(item.values is None and item.origin == CONSTANT for item in items):
        return None
    values = tuple(value for item in items for value in item.values or ())
    if len(values) > MAX_FOLLOWED:
        return None
    followed = all(item.values is not None for item in items)
    shape = (len(values),) if followed else None
    return Known(sum(item.numbers for item in items), shape, origin, values)


def _gathered(items: list[Known], origin: int) -> Known | None:
    """Return chosen axes; of a shape of unknown length 1 for each."""
    if len(items) < 2 or items[1].values is None:
        return None
    places, table = items[1].values, items[0].values
    if table is None:
        if items[0].origin != SHAPE:
            return None
        return Known(len(places), (len(places),), origin, (1,) * len(places))
    if any(not -len(table) <= place < len(table) for place in places):
        return None
    return Known(len(places), (len(places),), origin, tuple(table[int(i)] for i in places))


def _content(node: Node[Inner], given: list[tuple[float, ...]]) -> tuple[float, ...] | None:
    """Return the content that an operator makes of contents."""
    operator = node.operator
    if operator in _KEEPING:
        return given[0]
    if operator in _ONE and given:
        return tuple(_ONE[operator](value) for value in given[0] if _is_followed(value))
    if operator == "ConstantOfShape" and _is_small(given[0]):
        fill = node.tensors["value"].values if "value" in node.tensors else (0,)
        return None if fill is None else fill * math.prod(int(size) for size in given[0])
    if operator == "ReduceProd":
        return (math.prod(given[0]),)
    if operator == "ReduceSum":
        return (sum(given[0]),)
    if operator in ("ReduceMax", "ReduceMin"):
        return ((max if operator == "ReduceMax" else min)(given[0]),) if given[0] else None
    if operator == "Where" and len(given) == 3:
        rows = _aligned(given)
        return None if rows is None else tuple(yes if ask else no for ask, yes, no in rows)
    if operator in _TWO:
        rows = _aligned(given)
        return None if rows is None else tuple(_folded(operator, row) for row in rows)
    return None


def _is_small(shape: tuple[float, ...]) -> bool:
    return all(size >= 0 for size in shape) and math.prod(shape) <= MAX_FOLLOWED


def _aligned(given: list[tuple[float, ...]]) -> list[tuple[float, ...]] | None:
    length = max(map(len, given))
    if any(len(values) not in (1, length) for values in given):
        return None
    return list(zip(*(v * length if len(v) == 1 else v for v in given), strict=True))


def _folded(operator: str, row: tuple[float, ...]) -> float:
    made = row[0]
    for other in row[1:]:
        if not (_is_followed(made) and _is_followed(other)):
            return math.inf
        made = _TWO[operator](made, other)
    return made


def _shuffled(node: Node[Inner], given: list[Known | None], origin: int) -> Known | None:
    """Return content in another shape or order, by NumPy on Python's numbers."""
    first = given[0]
    if first is None or first.values is None or first.shape is None:
        return None
    if math.prod(first.shape) != len(first.values):
        return None
    table = np.array(first.values, object).reshape(first.shape)
    try:
        if node.operator == "Transpose":
            table = table.transpose(node.numbers.get("perm"))
        elif node.operator == "Reshape":
            sizes = _whole(node, given, 1, "shape")
            axes = enumerate(sizes or ())
            table = table.reshape([size or first.shape[axis] for axis, size in axes])
        else:
            table = table[_ranges(node, given, table.ndim)]
    except (IndexError, ValueError):
        return None
    return Known(table.size, table.shape, origin, tuple(table.ravel().tolist()))


def _whole(
    node: Node[Inner], given: list[Known | None], place: int, name: str
) -> tuple[int, ...] | None:
    """Return integers that an input gives, or an attribute, as operators of before have it."""
    item = given[place] if place < len(given) else None
    if item is None or item.values is None:
        return node.numbers.get(name)
    return tuple(int(value) for value in item.values)


def _ranges(node: Node[Inner], given: list[Known | None], rank: int) -> tuple[slice, ...]:
    starts, ends = _whole(node, given, 1, "starts"), _whole(node, given, 2, "ends")
    if starts is None or ends is None:
        raise ValueError("the ends of a slice are not known")
    axes = _whole(node, given, 3, "axes") or tuple(range(len(starts)))
    steps = _whole(node, given, 4, "steps") or (1,) * len(starts)
    chosen = [slice(None)] * rank
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        # To the very first with a step back is written as the lowest number.
        last = None if step < 0 and end < -_FARTHEST else end
        chosen[axis] = slice(start, last, step)
    return tuple(chosen)


def _divided(left: float, right: float) -> float:
    if not right:
        return math.inf
    if isinstance(left, int) and isinstance(right, int):
        return left // right
    return left / right


def _raised(base: float, exponent: float) -> float:
    if not base or abs(exponent) * math.log2(max(abs(base), 2)) > 256:
        return math.inf if base else 0
    try:
        power = base**exponent
    except (OverflowError, ValueError):
        return math.inf
    return math.inf if isinstance(power, complex) else power


_KEEPING = frozenset({"Identity", "Cast", "CastLike", "Squeeze", "Unsqueeze", "Flatten"})
_ONE: dict[str, Callable[[float], float]] = {
    "Abs": abs,
    "Neg": lambda value: -value,
    "Floor": math.floor,
    "Ceil": math.ceil,
    "Round": round,
    "Sqrt": lambda value: math.sqrt(value) if value >= 0 else math.inf,
    "Exp": lambda value: math.exp(value) if value < 180 else math.inf,
    "Log": lambda value: math.log(value) if value > 0 else math.inf,
    "Reciprocal": lambda value: _divided(1.0, value),
    "Not": lambda value: not value,
}
_TWO: dict[str, Callable[[float, float], float]] = {
    "Add": lambda left, right: left + right,
    "Sum": lambda left, right: left + right,
    "Sub": lambda left, right: left - right,
    "Mul": lambda left, right: left * right,
    "Div": _divided,
    "Mod": lambda left, right: left % right if right else math.inf,
    "Pow": _raised,
    "BitShift": lambda left, right: left * 2 ** min(abs(right), 256),
    "Max": max,
    "Min": min,
    "Equal": lambda left, right: left == right,
    "Less": lambda left, right: left < right,
    "Greater": lambda left, right: left > right,
    "And": lambda left, right: bool(left and right),
    "Or": lambda left, right: bool(left or right),
}
