"""Small pictures with masks, in memory and on the disk."""

from pathlib import Path

import numpy as np
from PIL import Image

from fleetledger.schemas.values import ClassName
from fleetledger.simulator.datasets.segmentation.images import SegmentedImages


def names(classes: int) -> tuple[ClassName, ...]:
    return tuple(ClassName(f"kind {label}") for label in range(classes))


def random_masks(number: int, classes: int, size=(6, 5), seed: int = 0) -> np.ndarray:
    """Masks with every value from 0 to `classes`, and 255."""
    drawn = np.random.default_rng(seed).integers(0, classes + 2, (number, *size))
    return np.where(drawn == classes + 1, 255, drawn).astype(np.uint8)


def random_pictures(number: int, size=(6, 5), seed: int = 0) -> np.ndarray:
    drawn = np.random.default_rng(seed).integers(0, 256, (number, 3, *size), dtype=np.uint8)
    return np.ascontiguousarray(drawn.transpose(0, 2, 3, 1))


def random_scenes(number: int, classes: int, size=(6, 5), seed: int = 0) -> SegmentedImages:
    masks = random_masks(number, classes, size, seed)
    return SegmentedImages(random_pictures(number, size, seed), masks, names(classes))


def save_picture(path: Path, picture: np.ndarray) -> None:
    """Write a picture (h, w, 3); the suffix decides the format."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(picture).save(path)


def save_mask(path: Path, mask: np.ndarray, palette: bool = True) -> None:
    """Write a mask as palette indices, whose colours say nothing, or as grey values."""
    path.parent.mkdir(parents=True, exist_ok=True)
    image = Image.fromarray(mask)
    if palette:
        image.putpalette([(7 * value) % 256 for value in range(768)])
    image.save(path)
