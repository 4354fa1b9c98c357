"""Meaning of the numbers that a network of somebody's own puts out: scores, or probabilities.

It is seen in what comes out for pictures, whatever the nodes are called. Numbers of at least 0
whose sum over the classes is 1, or 100, are probabilities. Their logarithms are scores without any
loss, as softmax(log p) = p / sum p. Where the file makes them by a softmax, the scores before it
serve as well and round less. Values behind that softmax which are only cast, reshaped, rounded or
clipped are left out, as long as they stay within `SAME` of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from onnx import ModelProto, NodeProto, helper, numpy_helper

from fleetledger.export.cut import Cutting
from fleetledger.export.errors import ModelFileError
from fleetledger.export.graph import write
from fleetledger.export.runtime import LoadedModel
from fleetledger.learning.numerics.entropy import softmax
from fleetledger.schemas.models import Gives

Values = npt.NDArray[Any]
Reading = Literal["scores", "logarithms", "margin", "share"]
"""How scores come of a value: it is they, their logarithms are, or it is one number of two classes,
the difference of their scores or the probability of the second."""

SAME = 0.01
"""Largest difference of a probability by which one value may stand for another."""
FLOOR = 1e-7
"""Least probability that a logarithm is taken of: float32 cannot tell it from 0 beside 1."""
_SUM = 5e-3
"""Share by which sums of probabilities miss 1: half precision has three digits."""
_BELOW = 1e-6
_EXACT = 1e-3
"""Share by which a softmax in float32 differs from the same in float64, in any case."""
_MOST_OF_GRID = 0.25
"""Share by which sums of probabilities in 8-bit integers may miss 1."""
_MOST_KEPT = 1 << 20
"""Numbers of a value that are kept of each picture; of larger maps every few pixels are."""
_KEEPING = frozenset(
    """
    Cast Clip DequantizeLinear Dropout Flatten Identity QuantizeLinear Reshape Squeeze Unsqueeze
    """.split()  # noqa: SIM905 - as lists of operators are written elsewhere
)
"""Operators whose result is their first input in another shape, or a little rounded."""
_INVERTED = frozenset({"Softmax", "Sigmoid"})
"""Operators whose input is tried as scores."""
_OF_EACH = frozenset({"Sigmoid", "HardSigmoid"})


@dataclass(frozen=True)
class Meaning:
    """The value that a head ends with, and how it becomes scores."""

    value: str
    axes: tuple[int, ...]
    """Of that value, behind the samples."""
    reading: Reading
    gives: Gives
    """What the file puts out."""
    whole: float = 1.0
    """Sum of the file's probabilities: 1, or 100 where they are in percent."""
    floor: float = FLOOR
    """Least probability that a logarithm is taken of."""
    rounded: bool = False
    """Whether the file rounds or clips the value before it puts it out."""

    @property
    def single(self) -> bool:
        """Whether one number stands for two classes."""
        return self.reading in ("margin", "share")

    @property
    def least_tolerance(self) -> float:
        """Difference of scores that a self-test has to bear: of one step of an eight-bit number.

        The logarithm of the least one goes from half a step to three halves.
        """
        return log(3) if self.floor > FLOOR else 0.0

    @property
    def told(self) -> str:
        """One sentence on what the file gives."""
        what = "one of two classes" if self.single else "each class"
        if self.gives == "scores":
            return f"the file gives a score of {what}; devices make probabilities by a softmax"
        percent = " in percent" if self.whole != 1 else ""
        ways: dict[Reading, str] = {
            "scores": "its softmax is left out, and devices make it",
            "margin": "its sigmoid is left out, and devices make a softmax",
            "logarithms": "the head takes their logarithms, and devices' softmax gives them back",
            "share": "the head takes its logarithm, and devices' softmax gives it back",
        }
        rounds = "; taken before the file rounds or clips them" if self.rounded else ""
        return f"the file gives a probability{percent} of {what}; {ways[self.reading]}{rounds}"

    def compared(self, scores: Values, original: Values) -> tuple[Values, Values]:
        """Return scores (N, C, ...) of the pair, and the file's output, as what the file gives."""
        original = original.reshape(len(scores), -1, *scores.shape[2:]).astype(np.float64)
        if self.gives == "scores":
            return (scores[:, 1:] - scores[:, :1] if self.single else scores), original
        shares = np.moveaxis(softmax(np.moveaxis(scores, 1, -1)), -1, 1)
        if self.single:
            return shares[:, 1:], original / self.whole
        if self.rounded:
            return shares, original / self.whole
        return shares, original / np.maximum(original.sum(axis=1, keepdims=True), FLOOR)


def meaning_of(
    model: ModelProto, cutting: Cutting, inputs: Sequence[Values], classes: int, gives: Gives | None
) -> Meaning:
    """Return what the one output (N, C, ...) of a network means, seen on preprocessed samples.

    `classes` is how many names there are, `gives` the operator's word, None to look. Raises
    `ModelFileError` where the numbers are neither scores nor probabilities of one class each.
    """
    seen = _look(model, cutting, inputs)
    if classes == 2 and seen.out.shape[1] == 1:
        return _single(seen, gives)
    return _several(seen, gives)


@dataclass(frozen=True)
class _Seen:
    """Values at the end of a network: the output, and what it is made of."""

    output: str
    kept: tuple[str, ...]
    """Values of which the output is a copy in another shape or rounding, the earliest first."""
    made_by: NodeProto | None
    """Node that makes the earliest of them."""
    step: float
    """Distance of the numbers that 8-bit integers give on the way; 0 where there are none."""
    arrays: Mapping[str, Values]
    """Each in the output's shape (N, C, ...), every few pixels of large ones."""
    axes: Mapping[str, tuple[int, ...]]

    @property
    def out(self) -> Values:
        """The output."""
        return self.arrays[self.output]

    @property
    def before(self) -> str | None:
        """What the earliest value is made of; None where that is more than one thing."""
        name = "" if self.made_by is None else self.made_by.input[0]
        return name if name in self.arrays else None

    @property
    def operator(self) -> str:
        """Operator that makes the earliest value."""
        return "" if self.made_by is None else str(self.made_by.op_type)


def _look(model: ModelProto, cutting: Cutting, inputs: Sequence[Values]) -> _Seen:
    output = model.graph.output[0].name
    names, node, step = [output], cutting.maker(output), 0.0
    while node is not None and node.op_type in _KEEPING and cutting.maker(node.input[0]):
        if node.op_type == "DequantizeLinear":
            step = _step(model, node)
        names.append(node.input[0])
        node = cutting.maker(names[-1])
    made_of_one = node is not None and node.op_type in _INVERTED
    wanted = [*names, node.input[0]] if node is not None and made_of_one else names
    wanted = list(dict.fromkeys(name for name in wanted if cutting.maker(name)))
    shown = ModelProto()
    shown.CopyFrom(model)
    del shown.graph.output[:]
    shown.graph.output.extend(helper.make_empty_tensor_value_info(name) for name in wanted)
    loaded, source = LoadedModel(write(shown)), model.graph.input[0].name
    runs = [loaded.run({source: one[np.newaxis]}, wanted) for one in inputs]
    runs = [run for run in runs if np.isfinite(run[output]).all()]
    shape = runs[0][output].shape
    of_floats = [
        name
        for name in wanted
        if all(run[name].dtype == np.float32 and run[name].size == np.prod(shape) for run in runs)
        and (len(shape) != 4 or max(shape[2:]) == 1 or runs[0][name].shape == shape)
    ]
    return _Seen(
        output,
        tuple(name for name in reversed(names) if name in of_floats),
        node if names[-1] in of_floats else None,
        step,
        {name: np.concatenate([_some(run[name], shape) for run in runs]) for name in of_floats},
        {name: runs[0][name].shape[1:] for name in of_floats},
    )


def _some(value: Values, shape: tuple[int, ...]) -> Values:
    value = value.reshape(shape)
    while value.size > _MOST_KEPT and len(shape) == 4:
        value = value[:, :, ::2, ::2]
    return value.astype(np.float64)


def _step(model: ModelProto, node: NodeProto) -> float:
    """Return the scale of a `DequantizeLinear`, 0 where it is not one number."""
    for tensor in model.graph.initializer:
        if tensor.name == node.input[1]:
            scale = numpy_helper.to_array(tensor)
            return float(scale.ravel()[0]) if scale.size == 1 else 0.0
    return 0.0


def whole_of(values: Values, spread: float = _SUM) -> float | None:
    """Return the sum over classes of probabilities, 1 or 100; None where they are none."""
    sums = values.sum(axis=1)
    for whole in (1.0, 100.0):
        misses = float(np.abs(sums - whole).max())
        if values.min() >= -_BELOW * whole and misses <= spread * whole:
            return whole
    return None


def _several(seen: _Seen, gives: Gives | None) -> Meaning:
    out, axes = seen.out, seen.axes[seen.output]
    if np.abs(out - 1).max() <= _BELOW:
        raise ModelFileError(
            "output: every number is 1 for every picture, as a softmax over another axis than the "
            "classes gives; export the network with the softmax over the classes, or without it"
        )
    as_scores = Meaning(seen.output, axes, "scores", "scores")
    if gives == "scores":
        return as_scores
    found = _probabilities(seen)
    if found is not None:
        return found
    if gives == "probabilities":
        if out.min() < -_BELOW:
            raise ModelFileError(
                f"gives: 'probabilities', but the file puts out {out.min():.3g}; say --gives scores"
            )
        return Meaning(seen.output, axes, "logarithms", "probabilities", _scale(out))
    _refuse_shares(seen)
    return as_scores


def _probabilities(seen: _Seen) -> Meaning | None:
    """Return the meaning of an output that is a probability for each class; None of others."""
    own = whole_of(seen.out)
    for name in seen.kept:
        value = seen.arrays[name]
        whole = whole_of(value)
        if whole is None or np.abs(value - seen.out).max() > SAME * whole:
            continue
        rounded = bool(np.abs(value - seen.out).max() > _BELOW * whole) or own is None
        before = seen.before if name == seen.kept[0] else None
        if before is not None:
            shares = np.moveaxis(softmax(np.moveaxis(seen.arrays[before], 1, -1)), -1, 1)
            if np.allclose(shares * whole, value, rtol=_EXACT, atol=_BELOW):
                axes = seen.axes[before]
                return Meaning(before, axes, "scores", "probabilities", whole, rounded=rounded)
        axes = seen.axes[name]
        return Meaning(name, axes, "logarithms", "probabilities", whole, rounded=rounded)
    spread = min(seen.step * seen.out.shape[1] / 2, _MOST_OF_GRID)
    if 0 < seen.step <= SAME and whole_of(seen.out, spread) == 1:
        floor, axes = max(FLOOR, seen.step / 2), seen.axes[seen.output]
        return Meaning(seen.output, axes, "logarithms", "probabilities", floor=floor)
    return None


def _scale(out: Values) -> float:
    return 100.0 if out.max() > 1 + SAME else 1.0


def _refuse_shares(seen: _Seen) -> None:
    """Raise `ModelFileError` for numbers from 0 to 1 that are no probabilities of one class each.

    A softmax of them would be nearly flat, whatever the picture.
    """
    out = seen.out
    if out.min() < -_BELOW or out.max() > 1 + SAME:
        return
    for axis in range(2, out.ndim):
        if out.shape[axis] > 1 and np.abs(out.sum(axis=axis) - 1).max() <= _SUM:
            raise ModelFileError(
                f"output: the numbers sum to 1 along axis {axis}, and classes lie along axis 1; "
                "export the network with its softmax over axis 1, or without it"
            )
    sums = out.sum(axis=1)
    told = f"numbers from 0 to 1 whose sum is {sums.min():.3g} to {sums.max():.3g}"
    if seen.operator in _OF_EACH:
        raise ModelFileError(
            f"output: sigmoids, {told}: several labels can be right at once, and devices give one "
            "class. Where one label is right, say --gives probabilities: each is divided by their "
            "sum. Else say --answers raw, and read them by a program of your own"
        )
    raise ModelFileError(
        f"output: {told}: no probabilities of one class each, and as scores nearly flat. Say "
        "--gives scores if they are scores, --gives probabilities to have each divided by their "
        "sum, or --answers raw for several labels"
    )


def _single(seen: _Seen, gives: Gives | None) -> Meaning:
    """Return the meaning of one number for two classes."""
    out, axes = seen.out, seen.axes[seen.output]
    inside = bool(out.min() >= -_BELOW and out.max() <= 1 + _BELOW)
    if gives == "probabilities" and not inside:
        raise ModelFileError(
            f"gives: 'probabilities', but the file puts out {out.min():.3g} to {out.max():.3g}; "
            "say --gives scores"
        )
    if gives is None and inside and seen.operator not in _OF_EACH:
        raise ModelFileError(
            f"output: one number for two classes, from {out.min():.3g} to {out.max():.3g}; say "
            "--gives probabilities if it is the probability of the second, --gives scores if it "
            "has no bounds and is above 0 for the second"
        )
    if gives == "scores" or not inside:
        return Meaning(seen.output, axes, "margin", "scores")
    before = seen.before
    if before is not None:
        shares = 1 / (1 + np.exp(-seen.arrays[before]))
        made = seen.arrays[seen.kept[0]]
        if np.allclose(shares, made, rtol=_EXACT, atol=_BELOW) and np.abs(made - out).max() <= SAME:
            rounded = bool(np.abs(made - out).max() > _BELOW)
            axes = seen.axes[before]
            return Meaning(before, axes, "margin", "probabilities", rounded=rounded)
    return Meaning(seen.output, axes, "share", "probabilities")
