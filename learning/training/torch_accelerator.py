"""Gram matrices, triangular factors and solves by torch, on a GPU.

A Gram matrix of integers is the same to the last bit as NumPy's: float32 products over so few rows
at a time that every partial sum is an integer that float32 holds, in any order, added up in int64.
That asks for products of float32 in float32; tensor cores round to TF32 where they are let, so a
device is tried before it is believed.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from fleetledger.learning.errors import TrainingError
from fleetledger.learning.networks.conversion import brought_home
from fleetledger.learning.training.devices import memory_watched, products_in_tf32

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

_ROWS_MORE_THAN_TF32 = 2049
"""TF32 has 11 bits of significand; this needs 12."""


class TorchAccelerator:
    """One device of torch; an `Accelerator`.

    Raises `TrainingError` where products of float32 are rounded on the way. Its methods raise
    `MemoryError` where the device has too little memory.
    """

    def __init__(self, device: str) -> None:
        self._device = torch.device(device)
        self._prove_exact()

    @property
    def fingerprint(self) -> Mapping[str, str]:
        """`solver`: the device's name and versions of torch and CUDA."""
        cuda = self._device.type == "cuda"
        name = torch.cuda.get_device_name(self._device) if cuda else self._device.type
        return {"solver": f"torch {torch.__version__}, CUDA {torch.version.cuda}, {name}"}

    def gram_triangle(self, features: npt.NDArray[np.float32], rows: int) -> Integers:
        """Return the upper triangle of H^T H as int64; see `Accelerator.gram_triangle`."""
        with torch.inference_mode(), products_in_tf32(allowed=False), memory_watched():
            H = self._there(features)
            columns = H.shape[1]
            gram = torch.zeros(columns, columns, dtype=torch.int64, device=self._device)
            for start in range(0, len(H), rows):
                block = H[start : start + rows]
                gram += (block.T @ block).to(torch.int64)
            row, column = torch.triu_indices(columns, columns, device=self._device)
            triangle: Integers = brought_home(gram[row, column]).numpy()
        return triangle

    def factor(self, features: npt.NDArray[np.floating]) -> Floats:
        """Return the R factor in float64; see `Accelerator.factor`."""
        with torch.inference_mode(), memory_watched():
            H = self._there(features).to(torch.float64)
            triangular: Floats = brought_home(torch.linalg.qr(H, mode="r").R).numpy()
        return triangular

    def solve(self, system: Floats, right: Floats) -> Floats | None:
        """Return the solution in float64 by Cholesky; see `Accelerator.solve`."""
        with torch.inference_mode(), memory_watched():
            lower, failed = torch.linalg.cholesky_ex(self._there(system))
            if int(failed) or not bool(torch.isfinite(lower).all()):
                return None
            solution: Floats = brought_home(torch.cholesky_solve(self._there(right), lower)).numpy()
        return solution

    def _there(self, array: npt.NDArray[np.floating]) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(array)).to(self._device)

    def _prove_exact(self) -> None:
        rows, value = 4, _ROWS_MORE_THAN_TF32
        probe = np.full((rows, 64), value, np.float32)
        given = self.gram_triangle(probe, rows)
        if not (given == rows * value * value).all():
            raise TrainingError(
                f"device: products of float32 come out as {given[0]} for {rows * value * value} on "
                f"{self._device}, so that sums would not be exact; set cpu"
            )
