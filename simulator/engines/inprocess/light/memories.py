"""What devices remember between rounds, on the disk, so that only one is in memory.

A memory is kept under the number of the round that wrote it, and the one before goes when that
round is closed. So a run that was killed in a round trains it again from the memory before it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from schemas.values import DeviceId

_SUFFIX = ".partial"


def write_memory(folder: Path, device: DeviceId, number: int, memory: bytes) -> Path:
    """Write what a device remembers of a round below `folder`; return where."""
    path = folder / device / f"memory-{number:08}"
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + _SUFFIX)
    partial.write_bytes(memory)
    partial.replace(path)
    return path


def write_gradients(folder: Path, device: DeviceId, gradients: bytes) -> Path:
    """Write what the proxy gets of a device, below `folder`, until it is handed over."""
    path = folder / device / "gradients"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gradients)
    return path


class Memories:
    """A folder per device in `folder`; `is_closed` says whether a round is."""

    def __init__(self, folder: Path, is_closed: Callable[[int], bool]) -> None:
        self.folder = folder
        self._newest: dict[DeviceId, Path] = {}
        self._written: dict[DeviceId, Path] = {}
        for path in sorted(folder.glob("*/memory-*"), key=_round_of):
            if path.name.endswith(_SUFFIX) or not is_closed(_round_of(path)):
                path.unlink()
            else:
                self._replace(DeviceId(path.parent.name), path)

    def newest(self, device: DeviceId) -> Path | None:
        """Return the file with what a device remembers; None for nothing yet."""
        return self._newest.get(device)

    def written(self, device: DeviceId, path: Path) -> None:
        """Note what was written in this round; `settle` makes it the newest."""
        self._written[device] = path

    def settle(self) -> None:
        """Forget what was before: the round that wrote is closed."""
        for device, path in self._written.items():
            self._replace(device, path)
        self._written.clear()

    def _replace(self, device: DeviceId, path: Path) -> None:
        before = self._newest.get(device)
        if before is not None and before != path:
            before.unlink()
        self._newest[device] = path


def _round_of(path: Path) -> int:
    return int(path.name.removesuffix(_SUFFIX).rpartition("-")[2])
