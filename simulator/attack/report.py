"""What an attack found, as pictures and in words."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image
from torch import Tensor

from fleetledger.simulator.attack.eavesdropper import Attack, InvertedGradients

CLEAR, BLURRED = 25.0, 15.0
"""Decibels above which a picture is as good as the truth, and above which it can be recognised."""
_LEAST_SIDE = 160
_GAP = 8


def write_pictures(found: Attack, folder: Path) -> list[Path]:
    """Write each picture in its own size, and all of them enlarged side by side."""
    folder.mkdir(parents=True, exist_ok=True)
    images = {name: _image(picture) for name, picture in found.pictures.items()}
    images["side-by-side"] = _side_by_side(list(images.values()))
    paths = []
    for name, image in images.items():
        paths.append(folder / f"{name}.png")
        image.save(paths[-1])
    return paths


def rows_of_pictures(path: Path, truth: Tensor, found: Tensor) -> Path:
    """Write true pictures above those that were found; return the path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = [_side_by_side([_image(one) for one in some]) for some in (truth, found)]
    size = max(row.width for row in rows), sum(row.height + _GAP for row in rows) - _GAP
    whole = Image.new("RGB", size, "white")
    for place, row in enumerate(rows):
        whole.paste(row, (0, place * (row.height + _GAP)))
    whole.save(path)
    return path


def sentences(found: Attack) -> list[str]:
    """Return what was heard, the decibels of each picture, and what that means."""
    heard = found.decibels("found-with")
    return [
        f"label told by the gradients: {_label(found, found.heard)}",
        f"found without perturbation: {found.decibels('found-without'):.1f} dB"
        f" ({found.without.distance:.1e} from the gradients)",
        f"the perturbed picture itself: {found.decibels('perturbed'):.1f} dB",
        f"found with perturbation: {heard:.1f} dB ({found.heard.distance:.1e} from the gradients)",
        meaning(heard),
    ]


def meaning(decibels: float) -> str:
    """Return in words what a picture of so many decibels is to an eavesdropper."""
    if decibels >= CLEAR:
        return (
            "Whoever hears these gradients sees the picture nearly as it was: this perturbation "
            "protects nothing."
        )
    if decibels >= BLURRED:
        return (
            "Whoever hears these gradients sees a disturbed picture, in which much can still be "
            "recognised."
        )
    return (
        "Whoever hears these gradients sees the perturbed picture, far from the true one; its "
        "class is known all the same."
    )


def _label(found: Attack, heard: InvertedGradients) -> str:
    name = found.rows[heard.label] if heard.label < len(found.rows) else f"output {heard.label}"
    return f"{name} ({'right' if heard.label == found.label else 'wrong'})"


def _image(picture: Tensor) -> Image.Image:
    values = (255 * picture.clamp(0, 1)).round().to("cpu").numpy().astype(np.uint8)
    grey = len(values) == 1
    return Image.fromarray(values[0] if grey else np.ascontiguousarray(values.transpose(1, 2, 0)))


def _side_by_side(images: list[Image.Image]) -> Image.Image:
    times = max(1, -(-_LEAST_SIDE // images[0].width))
    side = times * images[0].width
    whole = Image.new("RGB", (len(images) * (side + _GAP) - _GAP, side), "white")
    for place, image in enumerate(images):
        large = image.convert("RGB").resize((side, side), Image.Resampling.NEAREST)
        whole.paste(large, (place * (side + _GAP), 0))
    return whole
