"""Windows of sequence numbers, which tell a message that came before."""

from __future__ import annotations

from fleetledger.schemas.values import BootId, DeviceId

WIDTH = 1024
"""Numbers behind the highest that are remembered one by one; what is older was there."""
_RUNS = 4
"""Runs of one device that are remembered: of the present one, and while it changes."""
_ALL = (1 << WIDTH) - 1


class SequenceWindow:
    """The numbers of one run on one topic: each is new once."""

    __slots__ = ("_highest", "_seen")

    def __init__(self) -> None:
        self._highest = -1
        self._seen = 0

    def is_new(self, number: int) -> bool:
        """Whether a number comes for the first time; it never does again."""
        ahead = number - self._highest
        if ahead > 0:
            # Bit n says whether the number n below the highest was seen.
            self._seen = 1 if ahead >= WIDTH else (self._seen << ahead | 1) & _ALL
            self._highest = number
            return True
        if -ahead >= WIDTH or self._seen >> -ahead & 1:
            return False
        self._seen |= 1 << -ahead
        return True


class SequenceWindows:
    """Windows of every device, for as long as this program runs."""

    def __init__(self) -> None:
        self._windows: dict[DeviceId, dict[tuple[BootId, str], SequenceWindow]] = {}
        """Of each device, those used last behind the others."""

    def is_new(self, device: DeviceId, boot: BootId, leaf: str, sequence: int) -> bool:
        """Whether a message comes for the first time."""
        windows = self._windows.setdefault(device, {})
        window = windows.pop((boot, leaf), None) or SequenceWindow()
        windows[boot, leaf] = window
        if len(windows) > 2 * _RUNS:
            del windows[next(iter(windows))]
        return window.is_new(sequence)
