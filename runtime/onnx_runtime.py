"""ONNX Runtime, imported so that it tells nobody what it runs.

Its official packages for Linux report to Microsoft by default since version 1.29: sessions, names
of graphs and files, providers, errors. That starts a thread, keeps a database in the user's cache
and takes 8 MiB of memory. `ORT_DISABLE_TELEMETRY=1` in the environment, before the first import,
is its own way to have none of it; no later call is.

Source: https://github.com/microsoft/onnxruntime/pull/27379 and docs/Privacy.md there.
"""

from __future__ import annotations

import importlib
import os
from typing import Any

VARIABLE = "ORT_DISABLE_TELEMETRY"
RUNTIME = "onnxruntime"
"""Its package, and the folder that its libraries lie in."""


def onnx_runtime() -> Any:  # noqa: ANN401 - a module without type information
    """Return ONNX Runtime, which is heavy and an extra; raise `ImportError` where it is not here.

    The owner may allow its reports by `ORT_DISABLE_TELEMETRY=0` in the program's environment.
    """
    os.environ.setdefault(VARIABLE, "1")
    import onnxruntime  # noqa: PLC0415 - after the above

    return onnxruntime


def onnx_runtime_tools(name: str) -> Any:  # noqa: ANN401 - as above
    """Return a module of ONNX Runtime's tools, such as `quantization`.

    Raises `ImportError` where it is not here, as in a bundle of a device.
    """
    return importlib.import_module(f"{onnx_runtime().__name__}.{name}")
