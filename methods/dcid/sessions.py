"""The model that a session began with, theta^(t-1): the teacher of l_a, and where old classes end.

Weights without a row for one of the head's classes are from before the session: they are
theta^(t-1) themselves. Once a round has given weights with all rows, the coordinator hands
theta^(t-1) on as the extra `old-model`, under the names that classes have by then.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile

from learning.networks.head import ROWS
from learning.networks.network import Network
from methods.dcid.assignment import OLD_MODEL
from methods.dcid.general import Arrays, decode_general, encode_general
from methods.training_half import Asked
from schemas.values import ClassName


@dataclass(frozen=True, eq=False)
class Before:
    """The model before the session; its rows are the first of the head that is trained."""

    arrays: Arrays
    names: tuple[ClassName, ...]

    def encode(self) -> bytes:
        """Return it as the file `old-model`."""
        return encode_general(self.arrays, self.names)


@dataclass(frozen=True)
class Rows:
    """What the rows of files are called by now."""

    known: Sequence[ClassName]
    """Those of the weights that were sent."""
    names: Sequence[ClassName]
    """Those of the head that is trained."""
    meanings: Mapping[ClassName, ClassName]
    """Present names by others."""


def before_session(
    network: Network, weights: bytes, extras: Mapping[str, bytes], rows: Rows
) -> Before | None:
    """Return theta^(t-1), or None in a session before which there was no class.

    Raises `ContributionError` for a file that is no model.
    """
    model = decode_general(weights, network)
    own: Sequence[ClassName] = rows.known[: len(model.names)]
    if set(rows.names) <= set(own):
        if OLD_MODEL not in extras:
            return None
        model = decode_general(extras[OLD_MODEL], network)
        own = [rows.meanings.get(name, name) for name in model.names]
    first = tuple(takewhile(lambda name: name in own, rows.names))
    if not first:
        return None
    places = [list(own).index(name) for name in first]
    arrays = {name: a[places] if name in ROWS else a for name, a in model.arrays.items()}
    return Before(arrays, first)


def rows_asked(network: Network, asked: Asked) -> Rows:
    """Return the coordinator's rows: what its newest weights say of renamed classes."""
    written = decode_general(asked.weights, network).names
    meanings = dict(zip(written, asked.weights_class_names, strict=False))
    return Rows(asked.weights_class_names, asked.class_names, meanings)
