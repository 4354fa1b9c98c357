"""The model that a session began with, theta^(t-1): the teacher of l_a, and where old classes end.

Weights without a row for one of the head's classes are from before the session: they are
theta^(t-1) themselves. Once a round has given weights with all rows, the coordinator hands
theta^(t-1) on as the extra `old-model`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from learning.networks.network import Network
from methods.dcid.assignment import OLD_MODEL
from methods.dcid.general import Arrays, decode_general, encode_general
from methods.network_weights import first_rows
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
    aliases: Mapping[ClassName, ClassName]
    """Present names by others."""


def before_session(
    network: Network, weights: bytes, extras: Mapping[str, bytes], rows: Rows
) -> Before | None:
    """Return theta^(t-1), or None in a session before which there was no class.

    Raises `ContributionError` for a file that is no model.
    """
    model = decode_general(weights, network)
    written: Sequence[ClassName] = rows.known[: len(model.names)]
    if set(rows.names) <= set(written):
        if OLD_MODEL not in extras:
            return None
        model = decode_general(extras[OLD_MODEL], network)
        written = model.names
    arrays, names = first_rows(model.arrays, written, rows.names, rows.aliases)
    return Before(arrays, names) if names else None
