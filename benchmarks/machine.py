"""The machine and the versions that a benchmark's numbers belong to."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, packages_distributions, version
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
        **{name: _version_of(name) for name in packages},
    }


def _version_of(package: str) -> str:
    """Return the version of a distribution, or of the one that fills a module of its name.

    ONNX Runtime comes as `onnxruntime`, `onnxruntime-gpu` and others, all with one module.
    Raises `PackageNotFoundError` where there is none.
    """
    try:
        return version(package)
    except PackageNotFoundError:
        found = packages_distributions().get(package, [])
        if not found:
            raise
        return ", ".join(f"{version(name)} ({name})" for name in sorted(set(found)))
