"""Fingerprint of the machine that last bits depend on: NumPy's platform, and torch's, if used."""

from __future__ import annotations

from importlib.util import find_spec

from fleetledger.learning.numerics.blas import platform_fingerprint
from fleetledger.methods.training_sides import AnyTrainingAssignment


def fingerprint_of(assignment: AnyTrainingAssignment) -> dict[str, str]:
    """Return the platform's fingerprint, with torch's where the coordinator's side trains with it.

    Keys beside those of `platform_fingerprint`: `torch`, its version, and `torch_cpu`, the
    instructions that it uses.
    """
    if not trains_here(assignment) or find_spec("torch") is None:
        return platform_fingerprint()
    import torch  # noqa: PLC0415 - heavy, and an extra

    return {
        **platform_fingerprint(),
        "torch": str(torch.__version__),
        "torch_cpu": str(torch.backends.cpu.get_cpu_capability()),
    }


def trains_here(assignment: AnyTrainingAssignment) -> bool:
    """Whether the coordinator's side of a method trains, which needs torch."""
    return assignment.coordinator_trains
