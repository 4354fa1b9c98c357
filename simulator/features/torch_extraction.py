"""Runs a network of torch over samples on a GPU, where ONNX Runtime has none.

Pictures are preprocessed on all cores and copied while the batch before is computed; float32
throughout, without TF32, so that features keep to those of a device within a step or two of their
grid.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import Tensor, nn

from fleetledger.learning.training.devices import products_in_tf32
from fleetledger.schemas.models import AnyPreprocessing
from fleetledger.simulator.features.extraction import Sample, cores, in_order, preprocessed
from fleetledger.simulator.features.interface import Floats

BATCH = 128
"""Samples per run."""
_AHEAD = 4
"""Batches that may be preprocessed and wait for the GPU."""


class TorchExtractor:
    """One network on one device of torch; an `Extractor`."""

    left: Sequence[str] = ()
    """Nobody else is tried."""

    def __init__(
        self, module: nn.Module, preprocessing: AnyPreprocessing, device: str, batch: int = BATCH
    ) -> None:
        """Move `module`, which gives the features of a batch, to torch's `device`."""
        self._module = module.to(device).eval()
        self._preprocessing = preprocessing
        self._device = torch.device(device)
        self._batch = batch

    def batches(self, samples: Sequence[Sample]) -> Iterator[tuple[Floats, float]]:
        """Yield the features of some samples after the other, in order, and the seconds they took.

        Raises `DatasetError` for a sample that cannot be read.
        """
        starts = range(0, len(samples), self._batch)
        batches = (samples[start : start + self._batch] for start in starts)
        began = time.perf_counter()
        running: Tensor | None = None
        with ThreadPoolExecutor(cores()) as pool, products_in_tf32(allowed=False):
            for inputs in in_order(pool, self._uploadable, batches, _AHEAD):
                following = self._start(inputs)
                if running is not None:
                    yield _fetched(running), time.perf_counter() - began
                    began = time.perf_counter()
                running = following
        if running is not None:
            yield _fetched(running), time.perf_counter() - began

    def _uploadable(self, samples: Sequence[Sample]) -> Tensor:
        inputs = torch.from_numpy(preprocessed(samples, self._preprocessing))
        return inputs.pin_memory() if self._device.type == "cuda" else inputs

    def _start(self, inputs: Tensor) -> Tensor:
        """Return the features (n, d) of inputs, which a GPU may still be computing."""
        with torch.inference_mode():
            features: Tensor = self._module(inputs.to(self._device, non_blocking=True))
            return features


def _fetched(features: Tensor) -> Floats:
    rows: Floats = features.float().cpu().numpy()
    return rows
