"""How much memory is free where networks are computed: on the card, or in the host's memory.

A process in a container is held to the limit of its control group, which the machine's own figures
do not show.
"""

from __future__ import annotations

import re
from pathlib import Path

import torch

_UNKNOWN = 4 << 30
"""Taken to be free on a host that does not tell."""
_ROOT = Path("/")


def free_bytes(device: str, root: Path = _ROOT) -> int:
    """Return the bytes that are free for tensors on `device`."""
    place = torch.device(device)
    if place.type == "cuda":
        return _of_card(place)
    return min(_of_host(root), _of_control_group(root))


def _of_card(place: torch.device) -> int:
    """Return what the card has free, and what torch has reserved and does not use."""
    card = torch.cuda.current_device() if place.index is None else place.index
    free: int = torch.cuda.mem_get_info(card)[0]
    unused: int = torch.cuda.memory_reserved(card) - torch.cuda.memory_allocated(card)
    return free + unused


def _of_host(root: Path) -> int:
    """Return what Linux says is available without swapping."""
    kib = _number(root / "proc/meminfo", "MemAvailable:")
    return _UNKNOWN if kib is None else kib << 10


def _of_control_group(root: Path) -> int:
    """Return what a limit of the container's leaves; without one, more than there can be."""
    folder = root / "sys/fs/cgroup"
    limit, used = _number(folder / "memory.max"), _number(folder / "memory.current")
    if limit is None or used is None:
        return 1 << 62
    kept_files = _number(folder / "memory.stat", "inactive_file") or 0
    return max(0, limit - used + kept_files)


def _number(path: Path, name: str = "") -> int | None:
    """Return the number behind a name, or the first of a file; None where there is none."""
    try:
        text = path.read_text(encoding="ascii", errors="replace")
    except OSError:
        return None
    found = re.search(rf"^{name}\s*(\d+)\b", text, re.MULTILINE)
    return int(found[1]) if found else None
