"""The samples of a fleet on its accelerator, uploaded once for a run; agents take theirs by index.

A simulation trains agents whose samples are rows of one array. On an accelerator that array is
copied there once, and from then on an agent's samples are named by their rows: eight bytes for each
instead of a picture. What does not fit is copied agent by agent, as where an agent is by itself; on
the processor there is nothing to copy, and none of this is used.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from fleetledger.learning.training.free_memory import free_bytes

log = logging.getLogger("learning.resident")

_SHARE = 4
"""One in so many of the bytes that the device has free when the run begins: stacks of agents may
take half of what is then left."""
_BLOCK_BYTES = 64 << 20
"""That are read on the host and copied at once."""

Rows = npt.NDArray[np.int64]
Read = Callable[[Rows], npt.NDArray[Any]]
"""From places in the shared array to what is there, in the host's memory."""


@dataclass(frozen=True, eq=False)
class ResidentSamples:
    """Rows of the array that a fleet shares, which stand where an agent has an array (n, ...).

    Indexed, they are read in the host's memory; `there` has them on the device.
    """

    base: Tensor
    """(N, ...): all of the fleet's samples, on the device."""
    rows: Rows
    """(n,) of them."""
    read: Read
    dtype: np.dtype[Any]

    @property
    def shape(self) -> tuple[int, ...]:
        """As of an array."""
        return (len(self.rows), *self.base.shape[1:])

    @property
    def nbytes(self) -> int:
        """Bytes in the host's memory."""
        return self.rows.nbytes

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, places: Any) -> npt.NDArray[Any]:  # noqa: ANN401 - as of an array
        """Return samples in the host's memory, as an array is indexed by its first axis."""
        chosen = self.rows[places]
        return self.read(chosen) if chosen.ndim else self.read(chosen[np.newaxis])[0]

    def of(self, places: Sequence[int]) -> ResidentSamples:
        """Return some of them."""
        return replace(self, rows=self.rows[np.asarray(places, np.int64)])

    def there(self) -> Tensor:
        """Return them on the device; only their rows are copied."""
        return self.base[torch.from_numpy(self.rows).to(self.base.device)]

    @staticmethod
    def batches(parts: Sequence[ResidentSamples], size: int) -> Iterator[Tensor]:
        """Yield samples of one array, behind one another, in batches on the device.

        Their rows are copied together, before the first.
        """
        base = parts[0].base
        rows = np.concatenate([part.rows for part in parts])
        for some in torch.from_numpy(rows).to(base.device).split(size):
            yield base[some]


SampleArray = npt.NDArray[Any] | ResidentSamples
"""What an agent has: (n, ...) in the host's memory, or on its accelerator, too."""


def samples_of(inputs: SampleArray, places: Sequence[int]) -> SampleArray:
    """Return some samples, which stay where they are."""
    if isinstance(inputs, ResidentSamples):
        return inputs.of(places)
    chosen: npt.NDArray[Any] = inputs[list(places)]
    return chosen


def tensor_of(inputs: SampleArray) -> Tensor:
    """Return samples as a tensor, on the device where they lie there."""
    return inputs.there() if isinstance(inputs, ResidentSamples) else on_host(inputs)


def on_host(array: npt.NDArray[Any]) -> Tensor:
    """Return an array as a tensor; one that must not be written is copied."""
    return torch.from_numpy(array) if array.flags.writeable else torch.tensor(array)


@dataclass(frozen=True, eq=False)
class Residence:
    """The array that a fleet shares, on the device of its agents."""

    base: Tensor
    read: Read
    dtype: np.dtype[Any]

    @classmethod
    def of(cls, first: npt.NDArray[Any], count: int, read: Read, device: str) -> Residence | None:
        """Return the array of `count` samples like `first` (1, ...), copied to `device` in blocks.

        None on the processor, without samples, and where they would take more than their share of
        what the device has free, which is logged.
        """
        if torch.device(device).type == "cpu" or not count:
            return None
        asked, free = count * first.nbytes, free_bytes(device)
        if asked * _SHARE > free:
            log.warning(
                "%d samples of %d MiB stay in the host's memory and are copied agent by agent: "
                "device %s has %d MiB free, of which they may take one in %d",
                count,
                asked >> 20,
                device,
                free >> 20,
                _SHARE,
            )
            return None
        kind = on_host(first).dtype
        base = torch.empty((count, *first.shape[1:]), dtype=kind, device=device)
        each = max(1, _BLOCK_BYTES // max(1, first.nbytes))
        for start in range(0, count, each):
            places = np.arange(start, min(count, start + each))
            base[start : start + each].copy_(on_host(read(places)))
        return cls(base, read, first.dtype)

    def samples(self, rows: Rows) -> ResidentSamples:
        """Return the samples of an agent."""
        return ResidentSamples(self.base, rows, self.read, self.dtype)
