"""Runs a model over samples as an agent does, on all cores at once.

Every core takes a few samples at a time, preprocesses them and runs them, in one session that
computes a run on one thread: the batch, the threads and the order of every sum are those of an
agent, so its numbers are an agent's too, and no core waits for another.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from fleetledger.device_agent.models.inference.installed_model import (
    InferenceSession,
    SessionSettings,
)
from fleetledger.learning.errors import SampleError
from fleetledger.learning.numerics.preprocessing import preprocess
from fleetledger.schemas.models import AnyPreprocessing
from fleetledger.simulator.datasets.samples import SampleSet
from fleetledger.simulator.errors import DatasetError
from fleetledger.simulator.features.interface import Floats
from fleetledger.simulator.features.providers import CPU

Sample = tuple[SampleSet, int]
"""A part of a data set and an index into it."""
Item = TypeVar("Item")
Result = TypeVar("Result")

AGENT_BATCH = SessionSettings().batch
GPU_BATCH = 64
_AHEAD = 4
"""Batches per core that may wait to be fetched."""


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0))


class Extractor(Protocol):
    """Whoever computes features."""

    @property
    def left(self) -> Sequence[str]:
        """What does not compute them though it was to, and why."""

    def batches(self, samples: Sequence[Sample]) -> Iterator[tuple[Floats, float]]:
        """Yield features (n, d) of some samples after the other, in order, and their seconds."""


class BatchExtractor:
    """One model on one provider of ONNX Runtime; an `Extractor`."""

    def __init__(
        self, model: bytes, output: str, preprocessing: AnyPreprocessing, provider: str
    ) -> None:
        """Load `model`, whose tensor `output` is wanted; raise `LoadError` if it does not load."""
        self._output = output
        self._preprocessing = preprocessing
        self._batch = AGENT_BATCH if provider == CPU else GPU_BATCH
        # On the CPU a run stays on the thread that asks for it, so what others do does not count.
        self._clock = time.thread_time if provider == CPU else time.perf_counter
        providers = (provider,) if provider == CPU else (provider, CPU)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "model.onnx")
            path.write_bytes(model)
            settings = SessionSettings(providers, 1, self._batch, bound=provider != CPU)
            self._session = InferenceSession(path, settings)

    @property
    def left(self) -> Sequence[str]:
        """Which providers could not run it, and why."""
        return self._session.left

    def batches(self, samples: Sequence[Sample]) -> Iterator[tuple[Floats, float]]:
        """Yield the output for a few samples after the other, in order, and the seconds they took.

        Raises `DatasetError` for a sample that cannot be read, `LoadError` where a run fails.
        """
        starts = range(0, len(samples), self._batch)
        batches = (samples[start : start + self._batch] for start in starts)
        with ThreadPoolExecutor(cores()) as pool:
            yield from in_order(pool, self._run, batches, _AHEAD * cores())

    def _run(self, samples: Sequence[Sample]) -> tuple[Floats, float]:
        started = self._clock()
        rows = self._session.run(self._output, preprocessed(samples, self._preprocessing))
        return rows, self._clock() - started


def preprocessed(samples: Sequence[Sample], preprocessing: AnyPreprocessing) -> NDArray[Any]:
    """Return samples as a network takes them (n, ...); raise `DatasetError` for one that it can't.

    What comes out is float32 of pictures, int64 of texts.
    """
    try:
        return np.stack([preprocess(part.picture(index), preprocessing) for part, index in samples])
    except SampleError as error:
        raise DatasetError(f"data: a sample cannot be used: {error}") from error


def in_order(
    pool: ThreadPoolExecutor,
    function: Callable[[Item], Result],
    items: Iterable[Item],
    ahead: int,
) -> Iterator[Result]:
    """Yield results in the order of `items`, at most `ahead` of them early."""
    rest = iter(items)
    waiting: deque[Future[Result]] = deque(
        pool.submit(function, item) for item in islice(rest, ahead)
    )
    try:
        while waiting:
            yield waiting.popleft().result()
            waiting.extend(pool.submit(function, item) for item in islice(rest, 1))
    finally:
        for future in waiting:
            future.cancel()
