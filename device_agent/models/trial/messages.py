"""What the agent asks of the process that tries a model, and what that answers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import BinaryIO

import numpy as np
from pydantic import Field

from fleetledger.device_agent.models.inference.installed_model import Inputs
from fleetledger.runtime.strict import Strict
from fleetledger.schemas.values import Digest
from fleetledger.schemas.variants import VariantName

MAX_ANSWER_BYTES = 64 * 1024
MAX_REASON = 500
BUILT = b"built\n"
"""Comes before the answer where an engine was to be built: it was, or its provider was left."""


class SampleShape(Strict):
    """Type and shape of one preprocessed sample, whose bytes follow the request."""

    dtype: str
    shape: tuple[int, ...]


class TrialEngines(Strict):
    """Where engines of TensorRT lie, and which one is built."""

    folder: str
    environment: str
    builds: Digest | None
    """The frozen part whose engine is built; others are only used."""
    cpu_seconds: int
    """Of the processor's time until it is built, and all of it where none is."""


class TrialRequest(Strict):
    """Which model is to be tried, how it is to be run, and what it may take."""

    blobs: str
    """The folder of its files."""
    manifest: Digest
    former: Digest | None
    """Manifest of the model whose time it is compared with."""
    variant: VariantName | None = None
    """The variant of the frozen part that is tried; None for the reference."""
    former_variant: VariantName | None = None
    """The same of the former model."""
    providers: tuple[str, ...]
    threads: int
    batch: int
    domains: tuple[str, ...]
    memory_bytes: int
    """Beyond what the libraries take."""
    cpu_seconds: int
    engines: TrialEngines | None = None
    """None where TensorRT is not used."""
    samples: tuple[SampleShape, ...] = ()


class TrialAnswer(Strict):
    """What became of it."""

    refused: str | None = Field(default=None, max_length=MAX_REASON)
    """Why the model cannot be used; None where it gave the right answers."""
    provider: str = Field(default="", max_length=100)
    left: tuple[str, ...] = Field(default=(), max_length=20)
    """Which providers were left for the next one, and why."""
    seconds: float = Field(default=0.0, ge=0)
    """Of one golden sample, the shortest of some runs."""
    former_seconds: float | None = Field(default=None, ge=0)
    """The same for the former model, in the same process; None where none of its lineage runs."""
    slower: float | None = Field(default=None, ge=0)
    """How many times the former model's time it takes."""
    grown_bytes: int = 0
    """Memory that the runs left behind."""
    runs: int = 0
    resident_bytes: int = Field(default=0, ge=0)
    """Of the process, once the model had been loaded and tested, and no other."""


@dataclass(frozen=True)
class ReceivedTrial:
    """A request with the samples of this device."""

    request: TrialRequest
    samples: Sequence[Inputs]


def write_request(file: BinaryIO, request: TrialRequest, samples: Sequence[Inputs]) -> None:
    """Write a request, one line of JSON, and the samples behind it."""
    shapes = tuple(SampleShape(dtype=item.dtype.name, shape=item.shape) for item in samples)
    fields = request.model_copy(update={"samples": shapes}).model_dump(mode="json")
    file.write(json.dumps(fields).encode() + b"\n")
    for sample in samples:
        file.write(np.ascontiguousarray(sample).tobytes())


def read_request(file: BinaryIO) -> ReceivedTrial:
    """Read what `write_request` wrote."""
    request = TrialRequest.model_validate_json(file.readline())
    return ReceivedTrial(request, [_read_sample(file, shape) for shape in request.samples])


def _read_sample(file: BinaryIO, shape: SampleShape) -> Inputs:
    dtype = np.dtype(shape.dtype)
    size = int(np.prod(shape.shape, dtype=np.int64)) * dtype.itemsize
    return np.frombuffer(file.read(size), dtype).reshape(shape.shape)
