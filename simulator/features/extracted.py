"""The output of one model for every sample of a split: computed once per picture, kept on disk."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from itertools import chain
from pathlib import Path

import numpy as np
from typing_extensions import Self

from fleetledger.device_agent.models.inference.installed_model import describe_runtime
from fleetledger.runtime.count_words import count_of
from fleetledger.schemas.models import AnyPreprocessing
from fleetledger.schemas.values import Digest
from fleetledger.simulator.datasets.images import Split
from fleetledger.simulator.datasets.samples import SampleSet
from fleetledger.simulator.engines.interface import Watch
from fleetledger.simulator.errors import BackboneError
from fleetledger.simulator.features.extraction import BatchExtractor, Extractor, Sample
from fleetledger.simulator.features.interface import Floats, Indices
from fleetledger.simulator.features.providers import TORCH_CUDA
from fleetledger.simulator.features.row_store import Origin, RowStore

_EVERY = 1.0
"""Seconds between two words."""

_KEPT_TOGETHER = 512
"""Rows that are computed before they are written."""
Classes = Sequence[int] | None
"""Labels; None: all of them."""


@dataclass(frozen=True)
class Source:
    """A model, and how to compute a tensor of it."""

    digest: Digest
    """Of the file that the model comes from."""
    open: Callable[[], Extractor]
    """Loads the model; called only when rows are missing."""
    preprocessing: AnyPreprocessing
    provider: str

    @classmethod
    def of_onnx(
        cls,
        digest: Digest,
        make: Callable[[], tuple[bytes, str]],
        preprocessing: AnyPreprocessing,
        provider: str,
    ) -> Self:
        """Return a source of an ONNX model; `make` gives it, and the name of its output."""
        return cls(
            digest,
            lambda: BatchExtractor(*make(), preprocessing, provider),
            preprocessing,
            provider,
        )

    @property
    def origin(self) -> Origin:
        """What decides the numbers, beside the picture."""
        return {
            "model": self.digest,
            "preprocessing": self.preprocessing.model_dump(mode="json"),
            "provider": self.provider,
            "runtime": _torch_version() if self.provider == TORCH_CUDA else describe_runtime()[0],
        }


@dataclass(frozen=True)
class ExtractedRows:
    """Rows for the training and test samples of a split."""

    store: RowStore
    train_places: Indices
    """Place of each training sample's row; -1 where none was asked for."""
    test_places: Indices

    def train(self, indices: Indices) -> Floats:
        """Return the rows (n, d) of training samples."""
        return self._rows(self.train_places[indices])

    def test(self, indices: Indices) -> Floats:
        """Return the rows (n, d) of test samples."""
        return self._rows(self.test_places[indices])

    def _rows(self, places: Indices) -> Floats:
        if (places < 0).any():
            raise BackboneError(
                f"features: {np.count_nonzero(places < 0)} pictures are of classes that the bank "
                "was not opened for; open it with all that will be asked for"
            )
        return self.store.rows(places)


def extract_split(
    split: Split, source: Source, cache: Path, watch: Watch, classes: Classes = None
) -> ExtractedRows:
    """Return the rows of all samples of `classes`; compute those that `cache` lacks.

    Equal pictures share a row. Raises `DatasetError` for a picture that cannot be read,
    `LoadError` or `ModelFileError` for a model that does not run, `BackboneError` for a cache that
    cannot be used.
    """
    wanted = [of_classes(part, classes) for part in (split.train, split.test)]
    parts = [
        part if len(indices) == len(part) else part.take(indices)
        for part, indices in zip((split.train, split.test), wanted, strict=True)
    ]
    digests = [_digests(part, watch) for part in parts]
    store = RowStore.open(cache, source.origin)
    if store is None or any((store.find(part) < 0).any() for part in digests):
        samples = ((part, index) for part in parts for index in range(len(part)))
        missing = dict(zip(chain.from_iterable(digests), samples, strict=True))
        store = _fill(store, source, cache, missing, watch)
    places = [np.full(len(part), -1, np.int64) for part in (split.train, split.test)]
    for place, indices, found in zip(places, wanted, digests, strict=True):
        place[indices] = store.find(found)
    return ExtractedRows(store, places[0], places[1])


def _torch_version() -> str:
    return version("torch")


def of_classes(part: SampleSet, classes: Classes) -> Indices:
    """Return the indices of the samples of `classes`, ascending."""
    if classes is None:
        return np.arange(len(part))
    return np.flatnonzero(np.isin(part.labels, classes)).astype(np.int64)


def _digests(part: SampleSet, watch: Watch) -> list[Digest]:
    progress = ExtractionProgress(watch, "telling pictures apart", len(part))
    digests = []
    for index in range(len(part)):
        digests.append(part.digest(index))
        progress.at(index + 1)
    return digests


def _fill(
    store: RowStore | None,
    source: Source,
    cache: Path,
    wanted: dict[Digest, Sample],
    watch: Watch,
) -> RowStore:
    """Return a store that has a row for every wanted digest."""
    watch.phase("loading the model that extracts features")
    extractor = source.open()
    if store is None:
        sample = next(iter(wanted.values()))
        ((row, _),) = extractor.batches([sample])
        if row.ndim != 2:
            raise BackboneError(f"backbone: output of shape {row.shape[1:]}; give a vector each")
        store = RowStore.create(cache, source.origin, row.shape[1])
    with store.locked(
        lambda: watch.phase("waiting for another run that extracts the same features")
    ):
        digests = list(wanted)
        missing = [digests[i] for i in np.flatnonzero(store.find(digests) < 0)]
        _append(store, extractor, missing, [wanted[digest] for digest in missing], watch)
    for reason in extractor.left:
        watch.remark(f"features were extracted on the CPU: {reason}")
    return store


def _append(
    store: RowStore,
    extractor: Extractor,
    digests: Sequence[Digest],
    samples: Sequence[Sample],
    watch: Watch,
) -> None:
    """Compute the rows of `samples` and write them, a few hundred at a time."""
    progress = ExtractionProgress(watch, "extracting features", len(samples))
    rows: list[Floats] = []
    done, seconds = 0, 0.0
    for batch, spent in extractor.batches(samples):
        rows.append(batch)
        seconds += spent
        ready = sum(map(len, rows))
        if ready >= _KEPT_TOGETHER or done + ready == len(samples):
            store.append(digests[done : done + ready], np.concatenate(rows))
            store.note_time(ready, seconds)
            done, rows, seconds = done + ready, [], 0.0
        progress.at(done + sum(map(len, rows)))


class ExtractionProgress:
    """One thing that is done for a known number of pictures."""

    def __init__(self, watch: Watch, what: str, total: int) -> None:
        self._watch = watch
        self._what = what
        self._total = total
        self._told = time.monotonic() - _EVERY

    def at(self, done: int) -> None:
        """Say that `done` pictures are done, unless something was just said."""
        if time.monotonic() - self._told >= _EVERY:
            self._told = time.monotonic()
            self._watch.phase(f"{self._what}: {done:,} of {count_of(self._total, 'picture')}")
