"""A whole network: a body that makes features and a head that makes scores."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from fleetledger.learning.errors import NetworkError
from fleetledger.learning.networks.body import Body
from fleetledger.learning.networks.head import (
    HeadKind,
    head_plan,
    initial_head,
    row_shapes,
    row_width,
)
from fleetledger.learning.networks.plan import Arrays, TensorPlan, initial_arrays

Shape = tuple[int, ...]


class PlannedBody(Protocol):
    """The part before the head, as far as files of tensors go."""

    def base_plan(self) -> Sequence[TensorPlan]:
        """Return the tensors that stay as a file gives them; none where all are trained."""
        ...


class AnyNetwork(Protocol):
    """A network whatever it scores, samples or their pixels: all that files of weights know."""

    @property
    def body(self) -> PlannedBody:
        """The part before the head."""
        ...

    def initial(self, seed: int, class_names: Sequence[str]) -> Arrays:
        """Return the first tensors from `seed`, equal on every machine, buffers among them."""
        ...

    def shapes(self, classes: int) -> dict[str, Shape]:
        """Return the shape of every tensor of the network with that many classes."""
        ...

    def check(self, arrays: Mapping[str, npt.NDArray[Any]], classes: int) -> None:
        """Raise `NetworkError` naming the first tensor that is missing, foreign or misshapen."""
        ...


@dataclass(frozen=True)
class Network:
    """A body that makes features and a head that makes one score per class."""

    body: Body
    head: HeadKind = "linear"
    head_dropout: float = 0.1
    """The rate behind the hidden layer of a hidden head; the other heads have none."""

    @property
    def width(self) -> int:
        """Number of features d, the input of the head."""
        return self.body.width

    @property
    def row_width(self) -> int:
        """Length of a class's row in the head."""
        return row_width(self.head, self.width)

    @property
    def stackable(self) -> bool:
        """Whether many agents' copies can be computed in one call of batched layers."""
        return self.body.stackable

    def initial(self, seed: int, class_names: Sequence[str]) -> Arrays:
        """Return the first tensors from `seed`, equal on every machine, buffers among them."""
        body = initial_arrays(self.body.plan(), seed)
        return body | initial_head(self.head, self.width, class_names, seed)

    def shapes(self, classes: int) -> dict[str, Shape]:
        """Return the shape of every tensor of the network with that many classes."""
        plans = (*self.body.plan(), *head_plan(self.head, self.width))
        shapes = {plan.name: plan.shape for plan in plans}
        return shapes | row_shapes(self.head, self.width, classes)

    def check(self, arrays: Mapping[str, npt.NDArray[Any]], classes: int) -> None:
        """Raise `NetworkError` naming the first tensor that is missing, foreign or misshapen."""
        check_tensors(arrays, self.shapes(classes))


def check_tensors(arrays: Mapping[str, npt.NDArray[Any]], expected: Mapping[str, Shape]) -> None:
    """Raise `NetworkError` naming the first tensor that is missing, foreign or misshapen."""
    _check_names(arrays, expected)
    for name, shape in expected.items():
        if np.shape(arrays[name]) != shape:
            raise NetworkError(
                f"tensors: {name!r} has shape {np.shape(arrays[name])}; give {shape}"
            )


def _check_names(given: Iterable[str], expected: Iterable[str]) -> None:
    missing = sorted(set(expected) - set(given))
    if missing:
        raise NetworkError(f"tensors: {missing[0]!r} is missing; give the whole network")
    foreign = sorted(set(given) - set(expected))
    if foreign:
        raise NetworkError(f"tensors: {foreign[0]!r} is no tensor of this network; leave it out")
