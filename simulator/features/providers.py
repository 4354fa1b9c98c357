"""What a scenario's `engine.device` means on this machine for networks that only look.

ONNX Runtime on a GPU comes first, since devices run ONNX files. Where its package has no CUDA but
torch has, a network that is also a network of torch runs there. What is left runs on the CPU, and
where a GPU idles meanwhile, a person is told.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

from fleetledger.device_agent.models.inference.installed_model import (
    InferenceSession,
    SessionSettings,
    describe_runtime,
)
from fleetledger.export.scaling_backbone import scaling_backbone
from fleetledger.schemas.models import Preprocessing
from fleetledger.simulator.errors import BackboneError

CPU = "CPUExecutionProvider"
CUDA = "CUDAExecutionProvider"
TORCH_CUDA = "torch on CUDA"
_DRIVER = Path("/proc/driver/nvidia")
_SMALLEST = Preprocessing(mode="L", size=(1, 1), mean=(0.0,), deviation=(1.0,), input_name="image")


@dataclass(frozen=True)
class Choice:
    """Where a network runs."""

    provider: str
    """`CPU`, `CUDA` or `TORCH_CUDA`."""
    remark: str = ""
    """What a person is to know of it; empty where it is as expected."""


def choose_extraction(device: str, in_torch: bool) -> Choice:
    """Return where features are extracted for `auto`, `cpu` or `cuda`.

    `in_torch` says whether torch has the network, too. Raises `BackboneError` where `cuda` is asked
    for and neither of them works here.
    """
    if device == "cpu" or _cuda_works():
        return Choice(choose_provider(device))
    if not torch_has_cuda():
        return Choice(choose_provider(device))
    version, providers = describe_runtime()
    lacking = f"ONNX Runtime {version} ({', '.join(providers)}) cannot use the GPU of this machine"
    if in_torch:
        return Choice(TORCH_CUDA, f"{lacking}; torch can, and extracts features there")
    remark = (
        f"{lacking}, and torch does not know this network: features are extracted on the CPU, "
        "which may take hours; install onnxruntime-gpu beside a driver that fits it"
    )
    return Choice(choose_provider(device), remark)


def choose_provider(device: str) -> str:
    """Return ONNX Runtime's provider for `auto`, `cpu` or `cuda`.

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


@lru_cache(maxsize=1)
def torch_has_cuda() -> bool:
    """Whether torch finds a GPU; torch takes seconds to import, so a driver is looked for first."""
    if not _DRIVER.exists() or find_spec("torch") is None:
        return False
    import torch  # noqa: PLC0415 - an extra

    return bool(torch.cuda.is_available())
