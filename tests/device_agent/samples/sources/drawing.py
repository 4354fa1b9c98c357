"""Pictures and masks of a device, on the disk."""

from pathlib import Path

import numpy as np
from PIL import Image

CLASSES = '[classes]\n1 = "cat"\n2 = "traffic light"\n'


def picture(seed: int = 0, height: int = 6, width: int = 5) -> Image.Image:
    pixels = np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
    return Image.fromarray(pixels)


def values(seed: int = 0, height: int = 6, width: int = 5) -> np.ndarray:
    """A mask with the values 0, 1, 2 and 255."""
    drawn = np.random.default_rng(seed).integers(0, 4, (height, width))
    return np.array([0, 1, 2, 255], np.uint8)[drawn]


def index_png(mask: np.ndarray) -> Image.Image:
    """A PNG of palette indices whose colours say nothing."""
    image = Image.fromarray(mask)
    image.putpalette([channel for value in range(256) for channel in (value // 2, 7, 9)])
    return image


def save(image: Image.Image, path: Path, **options) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    image.save(path, **options)
    return path


def write_scene(folder: Path, name: str, seed: int = 0) -> None:
    save(picture(seed), folder / "images" / f"{name}.png")
    save(index_png(values(seed)), folder / "masks" / f"{name}.png")
