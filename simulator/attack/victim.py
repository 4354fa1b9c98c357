"""The device that is listened to: its pictures of a class, and the network that it has trained."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt
from PIL import Image

from fleetledger.learning.networks.conversion import to_tensors
from fleetledger.learning.networks.pictures import Pictures
from fleetledger.methods.lga.assignment import LgaAssignment
from fleetledger.methods.lga.coordinator import COORDINATOR
from fleetledger.methods.lga.prototypes import TrainedModel
from fleetledger.methods.training.network_weights import Arrays, decode_weights
from fleetledger.schemas.values import ClassName
from fleetledger.simulator.datasets.digits import CLASS_NAMES, load_digits
from fleetledger.simulator.datasets.pictures import read_picture
from fleetledger.simulator.errors import AttackError


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


Images = npt.NDArray[np.uint8]

_OTHERS = 9
"""Classes that an untrained network has beside that of the pictures."""


def images_of(settings: AttackSettings) -> tuple[ClassName, Images]:
    """Return the class and its pictures (n, c, s, s); raise `AttackError` for none, or for both."""
    if (settings.digit is not None) == bool(settings.pictures):
        raise AttackError("pictures: give picture files of one class, or --digit, not both")
    if settings.digit is None:
        name = settings.label or ClassName("picture")
        return name, _read(settings.pictures, settings.side)
    if settings.label is not None:
        raise AttackError(f"label: {settings.label!r} beside --digit, which is its own label")
    digits = load_digits()
    images = digits.images[digits.labels == settings.digit]
    return CLASS_NAMES[settings.digit], images[:, np.newaxis]


def assignment_of(settings: AttackSettings, images: Images) -> LgaAssignment:
    """Return what such a fleet's devices are told; raise `MethodError` for what cannot be."""
    changes = {
        "perturbation_steps": settings.perturbation_steps,
        "perturbation_rate": settings.perturbation_rate,
    }
    given = {name: value for name, value in changes.items() if value is not None}
    fixed = {"network": settings.network, "mode": settings.mode, "seed": settings.seed}
    return COORDINATOR.assign(fixed | given, images.shape[1:])


def model_of(settings: AttackSettings, assignment: LgaAssignment, name: ClassName) -> TrainedModel:
    """Return the device's network; raise `AttackError` where it does not know the class."""
    arrays, rows = _network(settings, assignment, name)
    if name not in rows:
        raise AttackError(
            f"label: {name!r}, and the head of {settings.weights} knows "
            f"{', '.join(rows) or 'none'}; give one of them as --label"
        )
    channels = assignment.input_shape[0]
    pictures = Pictures((settings.mean,) * channels, (settings.deviation,) * channels)
    return TrainedModel(assignment.network, *to_tensors(arrays), pictures, rows)


def _network(
    settings: AttackSettings, assignment: LgaAssignment, name: ClassName
) -> tuple[Arrays, tuple[ClassName, ...]]:
    if settings.weights is None:
        others = tuple(ClassName(f"other-{number}") for number in range(1, _OTHERS + 1))
        rows = CLASS_NAMES if settings.digit is not None else (name, *others)
        return assignment.network.initial(settings.seed, rows), rows
    try:
        data = settings.weights.read_bytes()
    except OSError as error:
        raise AttackError(f"{settings.weights}: cannot be read: {error.strerror}") from error
    return decode_weights(data, assignment.network)


def _read(paths: Sequence[Path], side: int) -> Images:
    """Return pictures cut to squares and brought to `side`; grey only where all are."""
    opened = [read_picture(path) for path in paths]
    kind = "L" if all(one.mode == "L" for one in opened) else "RGB"
    squares = [np.asarray(_square(one.convert(kind), side)) for one in opened]
    stacked = np.stack(squares)
    if kind == "L":
        return np.ascontiguousarray(stacked[:, np.newaxis])
    return np.ascontiguousarray(stacked.transpose(0, 3, 1, 2))


def _square(picture: Image.Image, side: int) -> Image.Image:
    least = min(picture.size)
    left, top = (picture.width - least) // 2, (picture.height - least) // 2
    box = (left, top, left + least, top + least)
    return picture.resize((side, side), Image.Resampling.BICUBIC, box)
