"""The share of time that the GPU computes: its kernels' time over the wall's.

Kernels are recorded by torch.profiler (CUPTI), in a run of their own; the wall clock is that of the
same run without it, since recording takes time. Copies are apart: they are not computing.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable
from typing import Any

import torch

from benchmarks.gpu.budget import Clock

Span = tuple[float, float]
"""Begin and end of a kernel, in microseconds."""

_COPIES = ("Memcpy", "Memset")
_WALL_RUNS = 3
"""Whose median on the wall clock the kernels' time is held against."""
RUNS = _WALL_RUNS + 1
"""Of what is profiled, on a GPU."""


def gpu_share(run: Callable[[], object], device: str, clock: Clock) -> dict[str, Any] | None:
    """Return the share, the kernels and the seconds it comes from; None without a GPU.

    `run` waits for the device. `share` is None where the profiler saw no kernel, as where a
    container forbids CUPTI.
    """
    if torch.device(device).type != "cuda":
        return None
    wall = statistics.median(_seconds(run, clock) for _ in range(_WALL_RUNS))
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as seen:
        run()
    found = [
        (event.name, (event.time_range.start, event.time_range.end))
        for event in seen.events() or ()
        if event.device_type == torch.autograd.DeviceType.CUDA
        and not getattr(event, "is_user_annotation", False)
    ]
    return share_of(found, wall)


def share_of(found: Iterable[tuple[str, Span]], wall: float) -> dict[str, Any]:
    """Return what names and spans of kernels and copies say of a run of `wall` seconds."""
    every = list(found)
    kernels = [span for name, span in every if not name.startswith(_COPIES)]
    copies = [span for name, span in every if name.startswith(_COPIES)]
    computing = covered(kernels) / 1e6
    return {
        "share": round(computing / wall, 4) if kernels else None,
        "kernels": len(kernels),
        "kernel_seconds": round(computing, 6),
        "copies": len(copies),
        "copy_seconds": round(covered(copies) / 1e6, 6),
        "wall_seconds": round(wall, 6),
    }


def _seconds(run: Callable[[], object], clock: Clock) -> float:
    start = clock()
    run()
    return clock() - start


def covered(spans: Iterable[Span]) -> float:
    """Return the length of the union of spans: what runs beside another counts once."""
    total, reached = 0.0, float("-inf")
    for begin, end in sorted(spans):
        total += max(0.0, end - max(begin, reached))
        reached = max(reached, end)
    return total
