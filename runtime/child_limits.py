"""What a process that tries a file from elsewhere may take, and may not do."""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import sys
from contextlib import suppress
from pathlib import Path

_PR_SET_PDEATHSIG, _PR_SET_NO_NEW_PRIVS = 1, 38
_FIRST_TO_GO = "1000"
"""Whom the kernel ends first when the machine has no memory left."""

KEPT_VARIABLES = frozenset(
    {"PATH", "LD_LIBRARY_PATH", "LANG", "LC_ALL", "TZ", "VIRTUAL_ENV", "PYTHONHOME", "TMPDIR"}
)
KEPT_PREFIXES = ("CUDA_", "NVIDIA_", "OMP_", "OPENBLAS_", "MKL_", "ORT_", "TRT_")
"""Of a program's environment, what libraries need; anything else may be somebody's secret."""


def child_environment(own: dict[str, str]) -> dict[str, str]:
    """Return the environment of the process, of which a model can read whatever is in it."""
    kept = {
        name: value
        for name, value in own.items()
        if name in KEPT_VARIABLES or name.startswith(KEPT_PREFIXES)
    }
    # The modules are found where this process found them, installed or not.
    kept["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        kept.setdefault(name, "1")
    return kept


def contain() -> None:
    """Give up what no trial needs: core files, new privileges, and a life longer than its parent's.

    Where memory runs out this process is ended before any other.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform == "linux":
        libc = ctypes.CDLL(None)
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    with suppress(OSError):  # not on every system, and a help only
        Path("/proc/self/oom_score_adj").write_text(_FIRST_TO_GO, encoding="ascii")


def limit(
    memory_bytes: int, cpu_seconds: int, *, on_gpu: bool = False, file_bytes: int = 0
) -> None:
    """Bound memory, processor time and the size of a file that is written, by default none.

    Call it when all libraries are loaded: what these take is not the model's. A GPU's driver maps
    more than any bound and keeps files, so there the parent alone watches the resident memory.
    """
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_seconds, cpu_seconds + 1))
    if on_gpu:
        return
    resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes, file_bytes))
    bound = _mapped_bytes() + memory_bytes
    resource.setrlimit(resource.RLIMIT_AS, (bound, bound))


def limit_processor(cpu_seconds: int) -> None:
    """Bound the processor time from here on, after another bound has held until now."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    bound = int(used.ru_utime + used.ru_stime) + 1 + cpu_seconds
    resource.setrlimit(resource.RLIMIT_CPU, (bound, bound + 1))


def _mapped_bytes() -> int:
    """Return how much memory this process has mapped."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    except (OSError, ValueError):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return pages * resource.getpagesize()
