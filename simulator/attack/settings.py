"""What an attack is tried on; needs no torch."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from fleetledger.schemas.values import ClassName


@dataclass(frozen=True)
class AttackSettings:
    """A device's pictures of one class, the network it trained, and how it perturbs."""

    pictures: tuple[Path, ...]
    digit: int | None
    """Instead of picture files."""
    label: ClassName | None
    """Class of the picture files."""
    side: int
    network: str
    weights: Path | None
    """None: an untrained network."""
    mode: Literal["paper", "code"]
    perturbation_steps: int | None
    perturbation_rate: float | None
    """None: as the mode has it."""
    mean: float
    deviation: float
    """Of the network's inputs."""
    seed: int
    out: Path
