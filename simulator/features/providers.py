"""Which execution provider of ONNX Runtime a scenario's `engine.device` means on this machine."""

from __future__ import annotations

import tempfile
from functools import lru_cache
from pathlib import Path

from device_agent.inference import InferenceSession, SessionSettings, describe_runtime
from export.scaling_backbone import scaling_backbone
from schemas.models import Preprocessing
from simulator.errors import BackboneError

CPU = "CPUExecutionProvider"
CUDA = "CUDAExecutionProvider"
_SMALLEST = Preprocessing(mode="L", size=(1, 1), mean=(0.0,), deviation=(1.0,), input_name="image")


def choose_provider(device: str) -> str:
    """Return the provider for `auto`, `cpu` or `cuda`.

    `auto` takes a GPU where one works. Raises `BackboneError` where `cuda` is asked for and does
    not work here.
    """
    if device == "cpu" or (device == "auto" and not _cuda_works()):
        return CPU
    if not _cuda_works():
        version, providers = describe_runtime()
        raise BackboneError(
            f"engine.device: 'cuda' does not work with ONNX Runtime {version} "
            f"({', '.join(providers)}) on this machine; install onnxruntime-gpu beside a driver "
            "that fits it, or give 'auto' or 'cpu'"
        )
    return CUDA


@lru_cache(maxsize=1)
def _cuda_works() -> bool:
    """Load the smallest model: an ONNX Runtime made for GPUs names CUDA also where none is."""
    if CUDA not in describe_runtime()[1]:
        return False
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "smallest.onnx")
        path.write_bytes(scaling_backbone(_SMALLEST))
        return InferenceSession(path, SessionSettings((CUDA, CPU))).provider == CUDA
