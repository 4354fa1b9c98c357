"""Memory of this process: how much it holds, and giving back what it no longer needs."""

from __future__ import annotations

import ctypes
import gc
import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3
_M_MMAP_MAX = -4
_M_ARENA_MAX = -8
_MADV_DONTNEED = 4
_ALL_BYTES = 2**31 - 1
_LARGE_BYTES = 256 * 1024


def total_bytes() -> int:
    """Return the memory of this machine in bytes."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def resident_bytes(process: int | None = None) -> int:
    """Return the resident memory of a process in bytes; 0 if it has ended.

    Of this process, unless another one is given. On Linux the kernel is asked directly, since
    psutil takes almost a megabyte.
    """
    if sys.platform != "linux":
        import psutil  # noqa: PLC0415 - see above

        try:
            return int(psutil.Process(process).memory_info().rss)
        except psutil.Error:
            return 0
    try:
        text = Path(f"/proc/{process or 'self'}/statm").read_text(encoding="ascii")
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return int(text.split()[1]) * os.sysconf("SC_PAGE_SIZE")


def resident_with_children() -> int:
    """Return the resident memory of this process and of those it started, in bytes."""
    import psutil  # noqa: PLC0415 - see `resident_bytes`

    found = resident_bytes()
    for child in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):  # it may end meanwhile
            found += int(child.memory_info().rss)
    return found


def frugal_allocation() -> None:
    """Tell glibc to prefer little memory over speed; other C libraries have nothing to tell.

    One heap for all threads instead of one each, and large arrays mapped one by one, so that
    freeing them returns them to the system. (By default glibc raises that limit with every large
    array that is freed, up to 32 MB.)
    """
    mallopt = _glibc("mallopt")
    if mallopt is not None:
        mallopt(_M_ARENA_MAX, 1)
        mallopt(_M_MMAP_THRESHOLD, _LARGE_BYTES)


def quick_allocation() -> None:
    """Tell glibc to prefer speed over little memory, the opposite of `frugal_allocation`.

    Large arrays are taken from what was freed before, so that the system need not clear new pages
    for each copy of a model; `release_memory` returns what is free.
    """
    mallopt = _glibc("mallopt")
    if mallopt is not None:
        mallopt(_M_MMAP_MAX, 0)
        mallopt(_M_TRIM_THRESHOLD, _ALL_BYTES)


def keep_loaded() -> None:
    """Have the collector pass over all that there is now, which a program needs until it ends.

    Modules are most of what it would walk through, each time that memory is given back.
    """
    gc.collect()
    gc.freeze()


def release_memory() -> None:
    """Return freed memory to the system.

    glibc keeps what was freed for later use; after loading a model or computing a part that is tens
    of megabytes, which a small device needs elsewhere.
    """
    gc.collect()
    trim = _glibc("malloc_trim")
    if trim is not None:
        trim(0)


def release_code(package: str) -> None:
    """Unmap the code of a package's libraries, of which nothing runs for a while.

    The system reads pages from the file again as they are run, from its cache or from the disk, so
    this may be called at any time. Code that was changed after it was read, such as for a debugger,
    stays.
    """
    madvise = _glibc("madvise")
    if madvise is None:
        return
    for begin, end in _unchanged_code(Path("/proc/self/smaps"), f"/{package}/"):
        madvise(ctypes.c_void_p(begin), ctypes.c_size_t(end - begin), _MADV_DONTNEED)


def _unchanged_code(smaps: Path, within: str) -> Iterator[tuple[int, int]]:
    """Yield begin and end of each mapping of code whose pages are all the file's."""
    found: tuple[int, int] | None = None
    for line in smaps.read_text(encoding="utf-8", errors="replace").splitlines():
        first, *rest = line.split(maxsplit=5)
        if not first.endswith(":"):
            begin, _, end = first.partition("-")
            is_code = rest[0] == "r-xp" and within in rest[-1]
            found = (int(begin, 16), int(end, 16)) if is_code else None
        elif first == "Anonymous:" and found is not None and rest[0] == "0":
            yield found


def _glibc(name: str) -> ctypes._NamedFuncPointer | None:
    """Return a function of glibc; None where the C library lacks it."""
    if sys.platform != "linux":
        return None
    return getattr(ctypes.CDLL(None), name, None)
