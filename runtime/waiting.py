"""Waiting for a condition, with a limit and an error that says what is missing."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from fleetledger.runtime.errors import FleetledgerError

_POLL_SECONDS = 0.1
Found = TypeVar("Found")


class WaitTimeoutError(FleetledgerError, TimeoutError):
    """A condition was not met within its time; the text says how things stand."""


def wait_for(
    ask: Callable[[], Found],
    met: Callable[[Found], bool],
    timeout: float,
    describe: Callable[[Found], str],
) -> Found:
    """Ask until `met` accepts the answer, and return that answer.

    Raises `WaitTimeoutError` after `timeout` seconds with what `describe` says of the last answer,
    and what `ask` and `met` raise.
    """
    end = time.monotonic() + timeout
    while not met(found := ask()):
        if time.monotonic() >= end:
            raise WaitTimeoutError(f"waited {timeout:g} s for {describe(found)}")
        time.sleep(min(_POLL_SECONDS, max(0.0, end - time.monotonic())))
    return found
