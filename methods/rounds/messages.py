"""What leaves a device that trains in rounds: `client_updates` around what it was sent.

| phase | an answer holds | around | form |
| --- | --- | --- | --- |
| train | what is trained | what was sent, with the head's new rows | `upload`, or clipped |
| calibrate, `bias` | alpha and beta | 1 and 0 | `int32` |
| calibrate, `refit` | the head | the head that was sent | `int32` |
| fisher | how much each weight matters, 0 to 1 of the cap | zeros | `int32` |

The fleet's weights, and files of the same tensors such as an old model, are those of
`methods.training.network_weights`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from fleetledger.learning.networks.head import is_of_head
from fleetledger.methods.errors import ContributionError
from fleetledger.methods.rounds.assignment import CALIBRATE, FISHER, SYNTHETIC, RoundsAssignment
from fleetledger.methods.rounds.fisher import unit_zeros
from fleetledger.methods.training.client_updates import UpdateFrame
from fleetledger.methods.training.network_weights import Arrays, decode_weights, grown
from fleetledger.runtime.errors import SchemaError
from fleetledger.schemas.tensors import Expected, encode_tensors, read_tensors
from fleetledger.schemas.values import ClassName

BIAS_CORRECTION = "correction"
"""The tensor (2,) with alpha and beta of BiC."""
_HEADER = 1 << 12
"""Bytes of a file of images beside these."""
_Tensor = TypeVar("_Tensor")


def received(
    assignment: RoundsAssignment,
    weights: bytes,
    known: Sequence[ClassName],
    names: Sequence[ClassName],
) -> Arrays:
    """Return what devices begin with: the sent weights with the head's new rows.

    `known` are the rows that the weights have by now: a class may have been renamed since the file
    was written.
    """
    arrays, _ = decode_weights(weights, assignment.network)
    return grown(arrays, known, names, assignment.settings.seed)


def trained_of(assignment: RoundsAssignment, tensors: Mapping[str, _Tensor]) -> dict[str, _Tensor]:
    """Return those of a network's tensors that are trained and answered with."""
    whole = assignment.settings.trained == "all"
    return {name: tensor for name, tensor in tensors.items() if whole or not is_of_head(name)}


def frame_of(assignment: RoundsAssignment, sent: Arrays, phase: str) -> UpdateFrame:
    """Return what answers look like, of devices that began with `sent`."""
    if phase == FISHER:
        return UpdateFrame(unit_zeros(sent))
    settings = assignment.settings
    if phase == CALIBRATE and settings.calibration == "bias":
        return UpdateFrame({BIAS_CORRECTION: np.array([1.0, 0.0], np.float32)})
    if phase == CALIBRATE:
        return UpdateFrame({name: array for name, array in sent.items() if is_of_head(name)})
    return UpdateFrame(trained_of(assignment, sent), settings.upload, settings.privacy)


def encode_images(images: npt.NDArray[np.uint8]) -> bytes:
    """Return synthetic images (n, c, h, w) as a file, which its sender packs."""
    return encode_tensors({SYNTHETIC: images})


def decode_images(assignment: RoundsAssignment, data: bytes) -> npt.NDArray[np.uint8]:
    """Return as many synthetic images as the settings say; raise `ContributionError`."""
    assert assignment.settings.generator is not None
    shape = (assignment.settings.generator.images, *assignment.input_shape)
    try:
        file = read_tensors(data, {SYNTHETIC: Expected("uint8", shape)}, prod(shape) + _HEADER)
    except SchemaError as error:
        raise ContributionError(f"{SYNTHETIC}: {error}") from error
    images: npt.NDArray[np.uint8] = file.tensors[SYNTHETIC]
    return images
