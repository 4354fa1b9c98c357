"""Child processes that end with us, also when we are killed outright and can stop nothing."""

from __future__ import annotations

import ctypes
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_INTERRUPTING = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def interrupted_later() -> Iterator[None]:
    """Let what interrupts the main thread wait until a child with a `preexec_fn` is started.

    Python calls hooks around such a fork, those of `logging` among them, and drops what is raised
    in them: an interruption would be lost.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # where nothing is raised
        return
    waiting: list[int] = []
    former = {n: signal.signal(n, lambda n, _: waiting.append(n)) for n in _INTERRUPTING}
    try:
        yield
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)
        for held in waiting:
            signal.raise_signal(held)


def end_with_parent(number: signal.Signals = signal.SIGTERM) -> Callable[[], None] | None:
    """Return a `preexec_fn` after which a child gets the signal `number` when its parent dies.

    None off Linux. The kernel counts the end of the *thread* that starts the child, so start it
    from the main thread. A child that may be paused (SIGSTOP) ends by SIGKILL only.
    """
    if not sys.platform.startswith("linux"):
        return None
    prctl = ctypes.CDLL(None).prctl  # looked up before the fork

    def ask_the_kernel() -> None:
        prctl(_PR_SET_PDEATHSIG, int(number), 0, 0, 0)

    return ask_the_kernel
