"""On what a run was made: machine and versions, for `run.json`."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from pathlib import Path
from typing import Any

import psutil

_PACKAGES = (
    "fleetledger",
    "numpy",
    "onnx",
    "onnxruntime",
    "onnxruntime-gpu",
    "paho-mqtt",
    "pydantic",
    "sqlite-utils",
)


def machine() -> dict[str, Any]:
    """Return what decides how fast the demo is."""
    return {
        "system": platform.platform(),
        "processor": f"{platform.machine()}, {_processor_name()}",
        "cores": len(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else os.cpu_count(),
        "memory_mib": round(psutil.virtual_memory().total / 2**20),
    }


def _processor_name() -> str:
    """Return what the processor calls itself, where Linux says it."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return "name unknown"
    names = [line.partition(":")[2].strip() for line in text.splitlines() if "model name" in line]
    return names[0] if names else "name unknown"


def versions() -> dict[str, str]:
    """Return the versions of Python and of the installed packages that compute or carry."""
    found = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found
