"""`agent segment`: what the model that runs here makes of pictures, as masks that people can see.

    FOLDER/masks/NAME.png      palette indices at the picture's own size: 0 is background, each
                               other value the model's row; 255 where a crop left pixels out
    FOLDER/overlays/NAME.png   the same colours laid over the picture
    FOLDER/classes.toml        the class of each value, and its colour

The three fit a data folder of scenes (docs/segmentation.md), where an owner may mend such masks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from fleetledger.device_agent.errors import SegmentError
from fleetledger.device_agent.home.home import AgentHome
from fleetledger.device_agent.home.store.blobs import BlobFolder
from fleetledger.device_agent.models.host import ModelHost, sessions_of
from fleetledger.device_agent.models.inference.installed_model import Floats, InstalledModel
from fleetledger.device_agent.models.slots import ModelSlots
from fleetledger.device_agent.samples.images import ChangedError, Mask, read_limited
from fleetledger.device_agent.samples.sources.masks import BACKGROUND, IGNORED, values_in
from fleetledger.device_agent.samples.sources.scenes import CLASSES, MASKS
from fleetledger.learning.errors import ImageError
from fleetledger.learning.numerics.framing import MAX_ROWS, classes_of_pixels, frame_of
from fleetledger.learning.numerics.palette import voc_colours
from fleetledger.learning.numerics.preprocessing import (
    check_pixels,
    decode_picture,
    open_picture,
    preprocess,
)
from fleetledger.runtime.count_words import count_of
from fleetledger.runtime.toml_text import toml_value
from fleetledger.runtime.whole_file import write_whole
from fleetledger.schemas.models import of_pictures

OVERLAYS = "overlays"


@dataclass(frozen=True)
class Segmented:
    """What was written of one picture, or why nothing was."""

    picture: Path
    classes: tuple[str, ...] = ()
    """Names of what it shows, those with most pixels first; background is among them."""
    fault: str = ""


def active_model(home: AgentHome) -> InstalledModel:
    """Return the model of pixels in the active slot.

    Raises `SegmentError` if there is none, or it answers for whole samples; `ModelError` or
    `MissingError` if it cannot be loaded.
    """
    slot = ModelSlots(home.state_folder / "slots").active()
    if slot is None:
        raise SegmentError(
            f"{home.folder}: no model is active here; let the agent run until it has one "
            "(`fleetledger agent status`)"
        )
    host = ModelHost(BlobFolder(home.state_folder / "blobs"), sessions_of(home))
    model = host.model(host.manifest(slot.manifest), slot.variant)
    if not model.of_pixels:
        raise SegmentError(
            f"model version {slot.version} gives samples a class as a whole; only a fleet whose "
            "method gives pixels classes has models that segment"
        )
    if len(model.manifest.class_names) > MAX_ROWS:
        raise SegmentError(
            f"model version {slot.version} has {count_of(len(model.manifest.class_names), 'row')}; "
            f"a mask has values for {MAX_ROWS}"
        )
    return model


def segment(model: InstalledModel, pictures: Sequence[Path], folder: Path) -> Iterator[Segmented]:
    """Write masks and overlays of pictures, and the legend; yield what became of each.

    Nothing that exists is written over: masks may be somebody's labels. Raises `SegmentError` for
    that, and for two pictures of one name, before anything is written; `LoadError` if the model
    does not run.
    """
    names = [picture.stem for picture in pictures]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise SegmentError(f"pictures: two are called {twice[0]!r}; segment them one by one")
    files = [folder / part / f"{name}.png" for part in (MASKS, OVERLAYS) for name in names]
    for path in (folder / CLASSES, *files):
        if path.exists():
            raise SegmentError(f"--out: {path} is there already; choose another folder")
    try:
        for part in (MASKS, OVERLAYS):
            (folder / part).mkdir(parents=True, exist_ok=True)
        write_whole(folder / CLASSES, legend(model))
        for picture in pictures:
            yield _segment(model, picture, folder)
    except OSError as error:
        raise SegmentError(f"--out: {folder}: cannot be written: {error.strerror}") from error


def legend(model: InstalledModel) -> str:
    """Return the class and the colour of each value, as a `classes.toml`."""
    colours = voc_colours().tolist()
    rows = [
        f"{value} = {toml_value(name)}  # {_hexadecimal(colours[value])}"
        for value, name in enumerate(model.manifest.class_names)
        if value != BACKGROUND
    ]
    head = (
        f"# Values of the masks beside this file, by model version {model.manifest.version}, and "
        f"their colours.\n# 0 is background ({_hexadecimal(colours[BACKGROUND])}); of pixels with "
        f"{IGNORED} ({_hexadecimal(colours[IGNORED])}) the model sees nothing.\n[classes]\n"
    )
    return head + "".join(f"{row}\n" for row in rows)


def _hexadecimal(colour: Sequence[int]) -> str:
    return "#" + "".join(f"{channel:02x}" for channel in colour)


def _segment(model: InstalledModel, path: Path, folder: Path) -> Segmented:
    try:
        image = open_picture(read_limited(path))
        check_pixels(image)
        picture = decode_picture(image, "RGB")
        mask, _ = segmented(model, picture)
    except (ImageError, ChangedError) as error:
        return Segmented(path, fault=str(error))
    _palette_image(mask).save(folder / MASKS / f"{path.stem}.png")
    _overlay(picture, mask).save(folder / OVERLAYS / f"{path.stem}.png")
    return Segmented(path, _shown(model, mask))


def segmented(model: InstalledModel, picture: Image.Image) -> tuple[Mask, Floats]:
    """Return the mask (h, w) of an upright picture, at its own size, and the small scores."""
    spec = of_pictures(model.manifest.preprocessing)
    scores = model.pixel_scores(preprocess(picture, spec))
    frame = frame_of(picture.width, picture.height, spec)
    size = (picture.height, picture.width)
    return classes_of_pixels(scores.large, frame, size), scores.small


def _palette_image(mask: Mask) -> Image.Image:
    image = Image.fromarray(mask)
    image.putpalette(voc_colours().tobytes())
    return image


def _overlay(picture: Image.Image, mask: Mask) -> Image.Image:
    """Return the picture with half of each class's colour; background stays, 255 becomes pale."""
    pixels = np.array(picture)
    coloured = mask != BACKGROUND
    colours = voc_colours()[mask[coloured]]
    pixels[coloured] = (pixels[coloured].astype(np.uint16) + colours) // 2
    return Image.fromarray(pixels)


def _shown(model: InstalledModel, mask: Mask) -> tuple[str, ...]:
    counts = np.bincount(mask.ravel(), minlength=256)
    values = [value for value in values_in(mask) if value != IGNORED]
    ordered = sorted(values, key=lambda value: -counts[value])
    return tuple(str(model.manifest.class_names[value]) for value in ordered)
