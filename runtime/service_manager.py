"""Tells systemd that this program is ready, and that it still moves (sd_notify(3)).

A unit of `Type=notify` names a datagram socket in `NOTIFY_SOCKET`, and with `WatchdogSec` how long
silence may last in `WATCHDOG_USEC`. Where neither is set nothing is told to anybody.
"""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Callable, MutableMapping

_TIMES_PER_WATCHDOG = 4
_NEVER = float("inf")


class ServiceManager:
    """Says `READY=1` at the first beat of a main loop, and `WATCHDOG=1` by later ones."""

    def __init__(
        self,
        address: str,
        watchdog_seconds: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Speak to the socket at `address`, a path or @ and an abstract name; to nobody if empty.

        `watchdog_seconds` is how long systemd bears silence; None where it does not care.
        """
        self._address = f"\0{address[1:]}" if address.startswith("@") else address
        self._every = _NEVER if watchdog_seconds is None else watchdog_seconds / _TIMES_PER_WATCHDOG
        self._clock = clock
        self._ready = False
        self._next = 0.0

    @classmethod
    def take(cls, environment: MutableMapping[str, str] = os.environ) -> ServiceManager:
        """Take what systemd says out of the environment, so that no child speaks in our name."""
        address = environment.pop("NOTIFY_SOCKET", "")
        micros = environment.pop("WATCHDOG_USEC", "")
        process = environment.pop("WATCHDOG_PID", str(os.getpid()))
        watched = micros.isdecimal() and process == str(os.getpid())
        return cls(address, int(micros) / 1e6 if watched else None)

    def beat(self) -> None:
        """Say that the main loop goes round; costs next to nothing if called often."""
        if not self._ready:
            self._ready = True
            self._next = self._clock() + self._every
            self._say("READY=1")
        elif self._clock() >= self._next:
            self._next = self._clock() + self._every
            self._say("WATCHDOG=1")

    def _say(self, text: str) -> None:
        if not self._address:
            return
        # Who cannot be told misses the beats, and does what the unit says of that.
        with (
            contextlib.suppress(OSError),
            socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as out,
        ):
            out.settimeout(1.0)
            out.sendto(text.encode("ascii"), self._address)


def no_beat() -> None:
    """Tell nobody."""
