"""What a network's body is: it names its tensors and says which layers follow each other.

`Layers` carries the layers out, so a body needs no torch, and the same text serves one agent, a
stack of agents, and whatever else can compute layers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from fleetledger.learning.networks.module_source import ModuleSource
from fleetledger.learning.networks.plan import TensorPlan

EPSILON = 1e-5
"""Added to variances that batch normalisation divides by."""
MOMENTUM = 0.1
"""Share of a batch in the running statistics of batch normalisation."""
WIDEST_STACKED = 64
"""Channels up to which convolutions of several agents are computed in one call."""

V = TypeVar("V")
"""What flows through the layers: a torch tensor where torch computes."""


class Layers(Protocol[V]):
    """The layers that bodies are made of; `name` says whose tensors a layer uses."""

    def rows(self, values: V, axes: int) -> V:
        """Return each sample's values, which have `axes` axes, as one row (..., n, d)."""
        ...

    def linear(self, name: str, values: V) -> V:
        """Return x W^T + b of values (..., n, in)."""
        ...

    def project(self, values: V, matrix: npt.NDArray[np.float32]) -> V:
        """Return M x of values (..., n, in) by a matrix (out, in) that nobody trains."""
        ...

    def standardise(self, centre: str, spread: str, values: V) -> V:
        """Return (x - centre) / spread of values (..., n, d), by tensors (d,) of these names."""
        ...

    def convolution(
        self, name: str, values: V, stride: int = 1, dilation: int = 1, groups: int = 1
    ) -> V:
        """Return the convolution of values (..., n, c, h, w), with a bias where one is named so.

        Padded by half the side that the dilated kernel spans: stride 1 keeps the size.
        """
        ...

    def batch_norm(
        self, name: str, values: V, epsilon: float = EPSILON, momentum: float = MOMENTUM
    ) -> V:
        """Return the batch normalisation of values (..., n, d) or (..., n, c, h, w)."""
        ...

    def dropout(self, values: V, rate: float, layer: int) -> V:
        """Return values of which `rate` are zero while training; `layer` counts the dropouts."""
        ...

    def relu(self, values: V) -> V:
        """Return max(values, 0)."""
        ...

    def add(self, one: V, two: V, name: str = "") -> V:
        """Return the sum of two maps of one shape; `name` is for those that watch it."""
        ...

    def max_pool(self, values: V, side: int = 2) -> V:
        """Return the largest of `side` x `side` pixels around every second pixel."""
        ...

    def mean_pool(self, values: V) -> V:
        """Return the mean over all pixels, (..., n, c)."""
        ...

    def patches(self, name: str, values: V) -> V:
        """Return one token for each patch of pictures (n, c, h, w): (n, t, width)."""
        ...

    def positions(self, first: str, positions: str, values: V) -> V:
        """Return the tensor `first` before all tokens, plus the tensor `positions`."""
        ...

    def layer_norm(self, name: str, values: V) -> V:
        """Return tokens (n, t, width) normalised one by one."""
        ...

    def attention(self, name: str, values: V, heads: int, beside: tuple[V, V] | None = None) -> V:
        """Return what tokens gather from each other: multi-head self-attention.

        `beside` is added to queries and to values, each (n, t, width).
        """
        ...

    def gelu(self, values: V) -> V:
        """Return x times the normal distribution function of x."""
        ...

    def scale(self, values: V, factor: float) -> V:
        """Return the values times a constant."""
        ...

    def first_token(self, values: V) -> V:
        """Return the first token (n, width) of each picture."""
        ...

    def module(self, body: ModuleSource, values: V) -> V:
        """Return what a torch module from outside makes of values (..., n, *shape)."""
        ...


class Body(Protocol):
    """From inputs to features. Equal bodies are equal values."""

    @property
    def width(self) -> int:
        """Number of features d."""
        ...

    @property
    def stackable(self) -> bool:
        """Whether many agents' copies can be computed in one call of batched layers."""
        ...

    def plan(self) -> Sequence[TensorPlan]:
        """Return the tensors that are trained, averaged and sent."""
        ...

    def base_plan(self) -> Sequence[TensorPlan]:
        """Return the tensors that stay as a file gives them; none where all are trained."""
        ...

    def features(self, layers: Layers[V], inputs: V) -> V:
        """Return the features (..., n, width) of the inputs."""
        ...
