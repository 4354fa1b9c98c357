"""What a device's scenes are to FBL: current data, or nothing.

The current data are the scenes that show a class of the newest stage that the device has scenes of.
Old scenes are not remembered, though they may lie in the folder. Masks show what the device's owner
drew; what they show of classes that the fleet has not, is background.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fleetledger.methods.errors import MethodError
from fleetledger.methods.training.exchange import FitInstruction, LocalData
from fleetledger.runtime.count_words import count_of
from fleetledger.schemas.values import ClassName

IGNORED = 255
_VALUES = 256

Masks = npt.NDArray[np.uint8]


@dataclass(frozen=True, eq=False)
class Current:
    """A device's current data."""

    rows: tuple[int, ...]
    """Of the local data."""
    labels: Masks
    """Of these (n, h, w): channels of the head, 255 where a pixel does not count."""
    names: frozenset[ClassName]
    """Classes of the stage that they show."""
    stage: int
    """The stage that brought these classes; 0 without scenes."""
    earlier: frozenset[ClassName]
    """Classes of earlier stages that any of the device's scenes show."""


def stages_of(instruction: FitInstruction) -> dict[ClassName, int]:
    """Return the stage that brought each class; raise `MethodError` where the order lacks it."""
    names, stages = instruction.round.class_names, instruction.class_stages
    if len(stages) != len(names):
        raise MethodError(
            f"class_stages: {len(stages)} for {count_of(len(names), 'class', 'classes')}, and FBL "
            "weighs pixels by the stage of their class; update the coordinator"
        )
    return dict(zip(names, stages, strict=True))


def current_of(instruction: FitInstruction, data: LocalData) -> Current:
    """Return the current data; raise `MethodError`."""
    stages, masks = stages_of(instruction), checked_masks(data)
    shown = [_values_in(mask) for mask in masks]
    newest = max(
        (stages.get(data.mask_class_names[v - 1], 0) for v in set().union(*shown)), default=0
    )
    values = {
        value
        for value, name in enumerate(data.mask_class_names, start=1)
        if newest and stages.get(name) == newest
    }
    rows = tuple(row for row, found in enumerate(shown) if found & values)
    there = {data.mask_class_names[value - 1] for value in set().union(*shown)}
    return Current(
        rows,
        _channels(instruction, data)[masks[list(rows)]],
        frozenset(name for name in there if stages.get(name) == newest),
        newest,
        frozenset(name for name in there if 0 < stages.get(name, 0) < newest),
    )


def checked_masks(data: LocalData) -> Masks:
    """Return the masks (N, h, w); raise `MethodError` where they do not fit pictures and names."""
    masks, (number, _, *size) = data.masks, data.inputs.shape
    if masks is None:
        raise MethodError(
            "masks: missing, and FBL learns the class of every pixel; give scenes, pictures with "
            "masks"
        )
    if masks.dtype != np.uint8 or masks.shape != (number, *size):
        raise MethodError(
            f"masks: {masks.dtype} {masks.shape} for pictures {data.inputs.shape}; give uint8 of "
            "their height and width"
        )
    named = len(data.mask_class_names)
    highest = int(masks[masks != IGNORED].max(initial=0))
    if highest > named:
        raise MethodError(
            f"masks: value {highest}, and {named} classes are named; name the class of every value"
        )
    return masks


def _values_in(mask: npt.NDArray[Any]) -> set[int]:
    """Return the classes' values in a mask."""
    counts = np.bincount(mask.reshape(-1), minlength=_VALUES)
    return set(np.flatnonzero(counts[1:IGNORED]) + 1)


def _channels(instruction: FitInstruction, data: LocalData) -> Masks:
    """Return the channel of the head by the value in a mask (256,)."""
    places = {name: row + 1 for row, name in enumerate(instruction.round.class_names)}
    if max(places.values()) >= IGNORED:
        raise MethodError(
            f"class_names: {count_of(len(places), 'class', 'classes')}, and masks can tell "
            f"{IGNORED - 1} apart; retire some"
        )
    channels = np.zeros(_VALUES, np.uint8)
    channels[IGNORED] = IGNORED
    for value, name in enumerate(data.mask_class_names, start=1):
        channels[value] = places.get(name, 0)
    return channels
