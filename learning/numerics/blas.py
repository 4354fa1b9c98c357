"""What floating-point results depend on besides their inputs: the platform, and BLAS threads."""

from __future__ import annotations

import platform
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache, lru_cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np

from fleetledger.learning.numerics.accelerator import accelerator

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Run the block with one BLAS thread, as far as threadpoolctl is installed.

    One thread makes the order of additions a property of the library, and beside a busy process
    it is also the faster choice. The fingerprint says whether the limit could be set.
    """
    if find_spec("threadpoolctl") is None:
        yield
        return
    loaded = _loaded_libraries(len(sys.modules))
    if all(one.num_threads == 1 for one in loaded.lib_controllers if one.user_api == "blas"):
        yield  # to set what is set takes longer than to factor a small matrix
        return
    with loaded.limit(limits=1, user_api="blas"):
        yield


@contextmanager
def numpy_on_one_thread() -> Iterator[None]:
    """Run the block with one thread of NumPy's own BLAS, as far as threadpoolctl is installed.

    Of blocks that lie in a cache, a second thread makes nothing faster, and a busy process slow.
    Other libraries, such as torch, keep their threads.
    """
    if find_spec("threadpoolctl") is None:
        yield
        return
    loaded = _loaded_libraries(len(sys.modules))
    paths = [str(library["filepath"]) for library in loaded.info()]
    with loaded.select(filepath=[path for path in paths if "numpy" in path]).limit(limits=1):
        yield


def platform_fingerprint() -> dict[str, str]:
    """Return what a solve's last bits depend on; equal fingerprints promise equal digests.

    Keys: `machine`, `system`, `numpy`, and of NumPy's BLAS `blas`, `blas_version`, `blas_core`
    and `blas_threads` ("1" where the limit can be set), "unknown" without threadpoolctl; `solver`
    where it is not BLAS that solves.
    """
    faster = accelerator()
    return {
        "machine": platform.machine(),
        "system": platform.system(),
        "numpy": np.__version__,
        **_blas(),
        **({} if faster is None else faster.fingerprint),
    }


def _blas() -> dict[str, str]:
    library = _blas_library()
    return {
        "blas": str(library.get("internal_api", "unknown")),
        "blas_version": str(library.get("version", "unknown")),
        "blas_core": str(library.get("architecture", "unknown")),
        "blas_threads": "1" if library else "unknown",
    }


def _blas_library() -> dict[str, Any]:
    """Return threadpoolctl's description of NumPy's BLAS, or nothing where it cannot be told."""
    return {} if find_spec("threadpoolctl") is None else _loaded_library()


@lru_cache(maxsize=1)
def _loaded_libraries(_modules: int) -> ThreadpoolController:
    """Return them once for so many modules of Python: looking through them takes milliseconds.

    A library comes with the module that loads it.
    """
    from threadpoolctl import ThreadpoolController  # noqa: PLC0415 - an extra of the coordinator

    return ThreadpoolController()


@cache
def _loaded_library() -> dict[str, Any]:
    """Return it once: to look through all loaded libraries takes a millisecond."""
    from threadpoolctl import threadpool_info  # noqa: PLC0415 - an extra of the coordinator

    libraries = [found for found in threadpool_info() if found.get("user_api") == "blas"]
    ours = [found for found in libraries if "numpy" in str(found.get("filepath", ""))]
    return dict((ours or libraries or [{}])[0])
