"""Memory of this process: how much it holds, and giving back what it no longer needs."""

from __future__ import annotations

import ctypes
import gc
import sys

import psutil


def resident_bytes() -> int:
    """Return the resident memory of this process in bytes."""
    return int(psutil.Process().memory_info().rss)


def give_back() -> None:
    """Return freed memory to the system.

    glibc keeps what was freed for later use; after loading a model or computing a part that is tens
    of megabytes, which a small device needs elsewhere. Other C libraries do it by themselves.
    """
    gc.collect()
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)
