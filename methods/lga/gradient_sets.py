"""What leaves a device for the proxy: a set of Gamma's gradients for each new class, and a trace.

No picture, label or name is in it, and nothing of the device: sets are in the order of their own
bytes. The trace is Tr(Delta_c) / d, the mean variance of the class's features on the device, one
number that equation (12) of LGA asks for. Labels can be recovered nevertheless (`recovery`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

import numpy as np
import torch

from fleetledger.methods.errors import ContributionError
from fleetledger.methods.lga.encoding import Encoding, Gradients
from fleetledger.runtime.errors import SchemaError
from fleetledger.schemas.tensors import Expected, UpTo, encode_tensors, read_tensors

MOST_SETS = 1000
"""Of one device at one time."""
_TRACES = "traces"
_HEADER_BYTES = 1 << 20


@dataclass(frozen=True, eq=False)
class GradientSet:
    """The gradients of one prototype, by tensor of Gamma, and the trace of its class."""

    gradients: Gradients
    trace: float = 0.0


def encode_gradients(sets: Sequence[GradientSet]) -> bytes:
    """Return sets of gradients, at least one, as bytes; raises `SchemaError` if not finite."""
    ordered = sorted(sets, key=_own_bytes)
    names = sorted(ordered[0].gradients)
    tensors = {
        name: torch.stack([item.gradients[name] for item in ordered]).cpu().float().numpy()
        for name in names
    }
    return encode_tensors(tensors, {_TRACES: [float(item.trace) for item in ordered]})


def decode_gradients(encoding: Encoding, data: bytes) -> tuple[GradientSet, ...]:
    """Return the sets in a payload; raise `ContributionError` naming what is wrong."""
    expected = {
        name: Expected("float32", (UpTo(MOST_SETS), *shape))
        for name, shape in encoding.shapes.items()
    }
    try:
        file = read_tensors(data, expected, _HEADER_BYTES + 4 * encoding.numbers * MOST_SETS)
    except SchemaError as error:
        raise ContributionError(f"gradients: {error}") from error
    traces = _traces(file.metadata.get(_TRACES))
    counts = {name: len(tensor) for name, tensor in file.tensors.items()}
    if not traces or set(counts.values()) != {len(traces)}:
        raise ContributionError(
            f"gradients: {len(traces)} traces for tensors of {sorted(set(counts.values()))} sets; "
            "give one of each for every set, and at least one set"
        )
    return tuple(
        GradientSet(
            {name: torch.from_numpy(tensor[row]) for name, tensor in file.tensors.items()}, trace
        )
        for row, trace in enumerate(traces)
    )


def _traces(values: Any) -> list[float]:  # noqa: ANN401 - whatever was sent
    if not isinstance(values, list) or len(values) > MOST_SETS:
        raise ContributionError(f"gradients: {_TRACES} must be a list of at most {MOST_SETS}")
    for value in values:
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if not number or not isfinite(value) or value < 0:
            raise ContributionError(f"gradients: trace {value!r}; a mean variance is at least 0")
    return [float(value) for value in values]


def _own_bytes(item: GradientSet) -> bytes:
    parts = [np.ascontiguousarray(item.gradients[n].cpu().float()) for n in sorted(item.gradients)]
    return b"".join(part.tobytes() for part in parts)
