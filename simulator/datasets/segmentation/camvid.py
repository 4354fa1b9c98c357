"""CamVid's street scenes with 11 classes, in either of the layouts that are about.

    root/{train,test}/NAME.png          root/{train,test}/NAME.png
    root/{train,test}annot/NAME.png     root/{train,test}_labels/NAME_L.png

`annot` folders are those of SegNet's tutorial: index masks of 0 to 10, and 11 for what has no
label. `_labels` folders hold the masks as Cambridge coloured them; their 32 classes become the same
11, as SegNet (Badrinarayanan et al. 2017) joined them. What has no label is 255 here. The pictures
of `val` are left alone, as are folders with the whole set.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fleetledger.learning.errors import ImageError
from fleetledger.schemas.values import ClassName
from fleetledger.simulator.datasets.images import Split
from fleetledger.simulator.datasets.pictures import read_picture
from fleetledger.simulator.datasets.segmentation.files import (
    MaskReader,
    SegmentedFiles,
    read_indices,
)
from fleetledger.simulator.datasets.segmentation.mask_pairs import pair_by_name
from fleetledger.simulator.datasets.segmentation.samples import IGNORED, value_of

Colour = tuple[int, int, int]
_JOINED: dict[str, tuple[Colour, ...]] = {
    "sky": ((128, 128, 128),),
    # Building, Wall, Bridge, Tunnel, Archway
    "building": ((128, 0, 0), (64, 192, 0), (0, 128, 64), (64, 0, 64), (192, 0, 128)),
    "pole": ((192, 192, 128), (0, 0, 64)),  # Column_Pole, TrafficCone
    "road": ((128, 64, 128), (128, 0, 192), (192, 0, 64)),  # Road, both LaneMkgs
    "pavement": ((0, 0, 192), (64, 192, 128), (128, 128, 192)),  # and ParkingBlock, RoadShoulder
    "tree": ((128, 128, 0), (192, 192, 0)),  # Tree, VegetationMisc
    "sign_symbol": ((192, 128, 128), (128, 128, 64), (0, 64, 64)),  # and Misc_Text, TrafficLight
    "fence": ((64, 64, 128),),
    # Car, SUVPickupTruck, Truck_Bus, Train, OtherMoving
    "car": ((64, 0, 128), (64, 128, 192), (192, 128, 192), (192, 64, 128), (128, 64, 64)),
    # Pedestrian, Child, CartLuggagePram, Animal
    "pedestrian": ((64, 64, 0), (192, 128, 64), (64, 0, 192), (64, 128, 64)),
    "bicyclist": ((0, 128, 192), (192, 0, 192)),  # Bicyclist, MotorcycleScooter
}
CLASS_NAMES = tuple(ClassName(name) for name in _JOINED)
_VOID: Colour = (0, 0, 0)
_UNLABELLED = 11
_HINT = (
    "CamVid is expected as train/ and test/ with trainannot/ and testannot/ (index masks), or with "
    "train_labels/ and test_labels/ (colours)"
)


def load_camvid(root: Path) -> Split[SegmentedFiles]:
    """Read both parts; raise `DatasetError` that says what to put where."""
    if (root / "train_labels").is_dir():
        return Split(
            _part(root, "train", "train_labels", "_L", read_colours),
            _part(root, "test", "test_labels", "_L", read_colours),
        )
    return Split(
        _part(root, "train", "trainannot", "", read_numbers),
        _part(root, "test", "testannot", "", read_numbers),
    )


def read_numbers(path: Path) -> NDArray[np.uint8]:
    """Return the values of a mask that counts classes from 0; raise `ImageError`."""
    mask = read_indices(path)
    if mask.size and mask.max() > _UNLABELLED:
        raise ImageError(
            f"mask: value {mask.max()} is no class; these masks have 0 to {_UNLABELLED}"
        )
    values: NDArray[np.uint8] = np.where(mask == _UNLABELLED, np.uint8(IGNORED), mask + np.uint8(1))
    return values


def read_colours(path: Path) -> NDArray[np.uint8]:
    """Return the values of a coloured mask; raise `ImageError` naming a colour of no class."""
    pixels = np.asarray(read_picture(path).convert("RGB"), np.int64)
    keys, places = np.unique(_keys(pixels), return_inverse=True)
    values = np.zeros(len(keys), np.uint8)
    for place, key in enumerate(keys.tolist()):
        if key not in _VALUES:
            colour = (key >> 16, key >> 8 & 255, key & 255)
            raise ImageError(f"mask: colour {colour} is none of CamVid's 32; mend the mask")
        values[place] = _VALUES[key]
    mask: NDArray[np.uint8] = values[places].reshape(pixels.shape[:2])
    return mask


def _keys(colours: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return a number for every colour, (..., 3) to (...)."""
    keys: NDArray[np.int64] = colours @ np.array([1 << 16, 1 << 8, 1])
    return keys


_VALUES = {
    int(_keys(np.array(colour))): value_of(label)
    for label, name in enumerate(CLASS_NAMES)
    for colour in _JOINED[name]
} | {int(_keys(np.array(_VOID))): IGNORED}


def _part(root: Path, part: str, masks: str, ending: str, read: MaskReader) -> SegmentedFiles:
    pairs = pair_by_name(root, part, masks, _HINT, ending)
    return SegmentedFiles(root, tuple(pairs), CLASS_NAMES, read)
