"""Targets of bundles: the wheels that fit a kind of device, and the runtime of its models."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class TargetName(str, Enum):
    """How an operator names a kind of device."""

    X86_64 = "x86-64"
    AARCH64 = "aarch64"
    JETPACK6 = "jetpack6"


@dataclass(frozen=True)
class Target:
    """A kind of device."""

    machine: str
    """As `uname -m` says it."""
    debian: str
    """As Debian calls it."""
    runtime: str
    """The ONNX runtime's package."""
    python: str | None = None
    """Where only one fits; None where it is the one that makes the bundle, or as told."""
    runtime_index: str | None = None
    """Index of the runtime alone, where it is not on the usual one."""
    further_tags: tuple[str, ...] = ()

    @property
    def platforms(self) -> tuple[str, ...]:
        """Platform tags of wheels that run there, on glibc 2.28 or later."""
        many = ("manylinux2014", "manylinux_2_17", "manylinux_2_27", "manylinux_2_28")
        return (*(f"{tag}_{self.machine}" for tag in many), *self.further_tags)


TARGETS = {
    TargetName.X86_64: Target("x86_64", "amd64", "onnxruntime"),
    TargetName.AARCH64: Target("aarch64", "arm64", "onnxruntime"),
    # Ubuntu 22.04 with CUDA 12.6; NVIDIA's wheels carry the plain tag.
    TargetName.JETPACK6: Target(
        "aarch64",
        "arm64",
        "onnxruntime-gpu",
        python="3.10",
        runtime_index="https://pypi.jetson-ai-lab.io/jp6/cu126",
        further_tags=("linux_aarch64",),
    ),
}
