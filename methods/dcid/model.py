"""The general model as a file, and what a round begins with.

The file is that of `methods.training.network_weights`. With class means it has one tensor more,
`nearest.rows` (C, d): the direction of each class's mean feature, zero where no site has an anchor
of the class. Training goes on from the weights; means are measured anew after each session.

A session's teacher of l_a is the model that it began with, theta^(t-1). Weights without a row for
one of the head's classes are from before the session: they are theta^(t-1) themselves. Once a round
has given weights with all rows, the coordinator hands theta^(t-1) on as the extra `old-model`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from fleetledger.learning.networks.head import BIAS, SCALE, WEIGHT
from fleetledger.learning.networks.network import Network
from fleetledger.methods.dcid.assignment import OLD_MODEL, DcidAssignment
from fleetledger.methods.errors import ContributionError
from fleetledger.methods.training.network_weights import Arrays, encode_weights, first_rows, grown
from fleetledger.runtime.errors import SchemaError
from fleetledger.schemas.tensors import Expected, encode_tensors, read_tensors
from fleetledger.schemas.values import ClassName, Digest

BEFORE = "before"
"""The network at the end of the session before, beside the one that was sent."""
ROWS = "nearest.rows"
NEAREST_SCALE = 10.0
"""What cosines with class means are multiplied with before the softmax; ranking is free of it."""
_NAMES, _NEAREST = "class_names", "nearest_mean"
_HEADER_BYTES = 1 << 20


@dataclass(frozen=True, eq=False)
class General:
    """The general model."""

    arrays: Arrays
    names: tuple[ClassName, ...]
    """Rows of its head, as they were called when it was written."""
    rows: npt.NDArray[np.float32] | None = None
    """Directions of class means (C, d), where these were measured."""


def encode_general(
    arrays: Mapping[str, npt.NDArray[Any]],
    names: Sequence[ClassName],
    rows: npt.NDArray[np.float32] | None = None,
) -> bytes:
    """Return the model as bytes; without `rows` those of `methods.training.network_weights`."""
    if rows is None:
        return encode_weights(arrays, names)
    metadata = {_NAMES: list(names), _NEAREST: True}
    return encode_tensors({**arrays, ROWS: rows}, metadata)


def decode_general(data: bytes, network: Network) -> General:
    """Return the model; raise `ContributionError` for other files."""

    def expected(metadata: dict[str, Any]) -> dict[str, Expected]:
        classes = len(metadata.get(_NAMES, ()))
        shapes = network.shapes(classes)
        if metadata.get(_NEAREST):
            shapes[ROWS] = (classes, network.width)
        return {name: Expected("float32", shape) for name, shape in shapes.items()}

    try:
        file = read_tensors(data, expected, len(data) + _HEADER_BYTES)
        names = tuple(ClassName(name) for name in file.metadata.get(_NAMES, ()))
    except SchemaError as error:
        raise ContributionError(f"weights: {error}") from error
    return General(file.tensors, names, file.tensors.pop(ROWS, None))


def answering(network: Network, model: General) -> tuple[Network, Arrays]:
    """Return the network that an exported model is: with its head, or with class means for rows.

    A cosine head whose rows are the means answers with the nearest: of vectors of length 1 the
    nearest has the largest cosine.
    """
    if model.rows is None:
        return network, model.arrays
    body = {n: a for n, a in model.arrays.items() if n not in (WEIGHT, BIAS, SCALE)}
    head = {WEIGHT: model.rows, SCALE: np.array(NEAREST_SCALE, np.float32)}
    return replace(network, head="cosine"), {**body, **head}


@dataclass(frozen=True, eq=False)
class Before:
    """The model before the session; its rows are the first of the head that is trained."""

    arrays: Arrays
    names: tuple[ClassName, ...]

    def encode(self) -> bytes:
        """Return it as the file `old-model`."""
        return encode_general(self.arrays, self.names)


@dataclass(frozen=True, eq=False)
class Beginning:
    """What a round begins with, the same at every site and at the coordinator.

    Its properties raise `ContributionError` for a file that is no model.
    """

    assignment: DcidAssignment
    weights: bytes
    known: Sequence[ClassName]
    """The rows that the weights have by now: a class may have been renamed since the file was
    written. Where there are more of them than the file has rows, the file's come first."""
    names: tuple[ClassName, ...]
    """Rows of the head that is trained."""
    extras: Mapping[str, bytes] = field(default_factory=dict)
    aliases: Mapping[ClassName, ClassName] = field(default_factory=dict)
    """Present names by others."""

    @cached_property
    def sent(self) -> Arrays:
        """The weights that were sent, with the head's new rows."""
        model, written = self._model
        return grown(model.arrays, written, self.names, self.assignment.settings.seed)

    @cached_property
    def before(self) -> Before | None:
        """theta^(t-1), or None in a session before which there was no class."""
        model, written = self._model
        if set(self.names) <= set(written):
            if OLD_MODEL not in self.extras:
                return None
            model = decode_general(self.extras[OLD_MODEL], self.assignment.network)
            written = model.names
        arrays, names = first_rows(model.arrays, written, self.names, self.aliases)
        return Before(arrays, names) if names else None

    def arrays_of(self, network: str) -> Arrays:
        """Return the model before the session, which there is, for `BEFORE`; else what was sent."""
        if network != BEFORE:
            return self.sent
        assert self.before is not None, "who asks for it knows that it is there"
        return self.before.arrays

    @property
    def old(self) -> int:
        """Number of classes from before the session, the first of the head."""
        return 0 if self.before is None else len(self.before.names)

    @property
    def digest(self) -> Digest:
        """What names the weights that the round begins with, new rows included."""
        return Digest.of(encode_general(self.sent, self.names))

    @property
    def _model(self) -> tuple[General, Sequence[ClassName]]:
        """The file that was sent, and what its rows are called by now."""
        model = decode_general(self.weights, self.assignment.network)
        return model, self.known[: len(model.names)]
