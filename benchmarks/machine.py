"""The machine and the versions that a benchmark's numbers belong to."""

from __future__ import annotations

import platform
from importlib.metadata import version
from pathlib import Path


def describe_machine(*packages: str) -> dict[str, str | int]:
    """Name processor, cores, kernel, C library and Python, and the versions of `packages`."""
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return {
        "cpu": models[0] if models else platform.machine(),
        "cores": len(models),
        "system": f"{platform.system()} {platform.release()}",
        "libc": " ".join(platform.libc_ver()),
        "python": platform.python_version(),
        **{name: version(name) for name in packages},
    }
