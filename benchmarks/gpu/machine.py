"""The device that is measured: what it is called, its driver, its arithmetic and its memory."""

from __future__ import annotations

import gc
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import torch

from benchmarks.machine import describe_machine
from fleetledger.learning.training.settings import TrainingEngineSettings

Precision = Literal["float32", "tf32", "bfloat16"]
"""`float32` has TF32 off everywhere, `tf32` on everywhere, `bfloat16` is the engine's autocast."""

_DEVICES = "give cuda, cuda:1 and so on, or cpu with --small"
_DRIVER = Path("/proc/driver/nvidia/version")


def describe(device: str) -> dict[str, Any]:
    """Name the machine, and card, driver, CUDA and cuDNN where a GPU computes."""
    told: dict[str, Any] = dict(describe_machine("numpy", "safetensors", "torch"))
    if torch.device(device).type != "cuda":
        return told
    card = torch.cuda.get_device_properties(device)
    return {
        **told,
        "card": card.name,
        "card_memory_bytes": card.total_memory,
        "compute_capability": f"{card.major}.{card.minor}",
        "driver": _driver(),
        "cuda": torch.version.cuda,
        "cudnn": torch.backends.cudnn.version(),
    }


def refusal(device: str, *, small: bool) -> str | None:
    """Return why nothing is measured on that device; None where it is."""
    try:
        asked = torch.device(device)
    except RuntimeError:
        return f"device: {device!r}, which torch does not know; {_DEVICES}"
    kind, there = asked.type, torch.cuda.device_count()
    if kind == "cuda" and (asked.index or 0) >= there:
        return (
            f"device: {device}, which torch {torch.__version__} does not find here; nothing was "
            "measured. Run this on a machine with a GPU and torch's CUDA build; "
            "--device cpu --small only tries the command itself"
        )
    if kind == "cpu" and not small:
        return "device: cpu, which this table is not about; --device cpu goes with --small"
    if kind not in ("cpu", "cuda"):
        return f"device: {device}; {_DEVICES}"
    return None


def settle(device: str) -> None:
    """Wait until the device has done all it was asked."""
    if torch.device(device).type == "cuda":
        torch.cuda.synchronize(device)


@contextmanager
def precise(precision: Precision) -> Iterator[None]:
    """Compute float32 with or without TF32 inside, in matrices and convolutions alike.

    As `engine.tf32` of a scenario does. Torch's defaults are TF32 in convolutions and none in
    matrices.
    """
    with TrainingEngineSettings(tf32=precision == "tf32").products():
        yield


def forget_peaks(device: str) -> None:
    """Free what nobody holds, and count peaks of memory from now."""
    gc.collect()
    if torch.device(device).type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)


def peaks(device: str) -> dict[str, int] | None:
    """Return the most bytes of tensors and of torch's reserve since; None without a GPU."""
    if torch.device(device).type != "cuda":
        return None
    return {
        "tensors": torch.cuda.max_memory_allocated(device),
        "reserved": torch.cuda.max_memory_reserved(device),
    }


def _driver() -> str:
    if _DRIVER.exists():
        return _DRIVER.read_text(encoding="utf-8").splitlines()[0].partition(":")[2].strip()
    program = shutil.which("nvidia-smi")
    if program is None:
        return "unknown: neither its file in /proc nor nvidia-smi is here"
    asked = [program, "--query-gpu=driver_version", "--format=csv,noheader"]
    told = subprocess.run(asked, capture_output=True, text=True, timeout=60, check=False)
    return told.stdout.partition("\n")[0].strip() or "unknown: nvidia-smi does not tell"
