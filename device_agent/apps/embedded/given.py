"""Samples that an application gives: each becomes a file of its class folder, durably and once.

A file is named by its content, appears whole, and is on the disk before `keep_sample` returns.
What is counted, and when, is up to the agent that scans the folder.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageOps

from fleetledger.device_agent.errors import GiveError
from fleetledger.device_agent.home.store.blobs import sync_folder, write_durably
from fleetledger.device_agent.kinds import ARRAY, PICTURES, TEXT
from fleetledger.device_agent.models.inference.frames import image_of
from fleetledger.device_agent.samples.images import ChangedError, read_limited
from fleetledger.device_agent.samples.sources.folder import is_left_alone
from fleetledger.device_agent.settings import AgentDataSettings
from fleetledger.learning.errors import SampleError
from fleetledger.learning.numerics.arrays import NPY, NPZ, array_content, read_array
from fleetledger.learning.numerics.preprocessing import decode_picture, open_picture
from fleetledger.runtime.count_words import count_of
from fleetledger.runtime.errors import InvalidValueError, shorten
from fleetledger.schemas.class_names import fault_of
from fleetledger.schemas.values import ClassName, Digest

Sample: TypeAlias = "npt.NDArray[Any] | Image.Image | bytes | str | os.PathLike[str]"
"""uint8 (H, W), (H, W, 3) RGB or (H, W, 4) RGBA, or a Pillow image, where samples are pictures;
text where they are texts; an array where they are arrays; the content of a file, or its path. A
`str` is a path except where samples are texts."""
_QUICK = 1
"""Level of PNG's compression: a camera waits, and the disk has room."""
_PLAIN_MODES = {"L", "RGB", "RGBA"}


@dataclass(frozen=True)
class GivenSample:
    """What became of a sample that was given."""

    digest: Digest
    """SHA-256 of the file's content, by which the agent counts it."""
    new: bool
    """Whether it was written; False where the agent has it already."""


def class_given(label: str) -> ClassName:
    """Return a label as the name of a class; raise `GiveError` where it cannot be one."""
    try:
        name = ClassName(label)
    except InvalidValueError as error:
        raise GiveError(
            f"label: {shorten(label)} is no name of a class; {error.way_out}"
        ) from error
    fault = fault_of(name)
    if fault:
        raise GiveError(f"label: {shorten(label)} {fault}")
    if is_left_alone(name):
        raise GiveError(f"label: {shorten(label)} is a folder of a system; choose another name")
    return name


def file_of(sample: Sample, settings: AgentDataSettings) -> tuple[bytes, str]:
    """Return the content and the ending of the file that a sample becomes.

    Raises `GiveError` for what is no sample of the kind that the settings name.
    """
    kind = settings.kind
    if kind.masked or not kind.suffixes:
        raise GiveError(
            f'data.samples: is "{kind.name}", of which none can be given in a call; '
            "put files into the data folder, or choose another kind in agent.toml"
        )
    encode, wanted = _KINDS[kind.name]
    try:
        found = encode(sample, settings)
    except (ChangedError, SampleError) as error:
        raise GiveError(f"sample: {error}") from error
    if found is None:
        raise GiveError(
            f'sample: {type(sample).__name__} is none where data.samples is "{kind.name}"; give '
            f"{wanted}, or a file's content or path"
        )
    if len(found[0]) > kind.most_bytes:
        size = count_of(len(found[0]), "byte")
        raise GiveError(f"sample: {size}, more than {kind.most_bytes}; {kind.smaller}")
    return found


def _picture(sample: Sample, settings: AgentDataSettings) -> tuple[bytes, str] | None:
    if isinstance(sample, np.ndarray | Image.Image):
        return _png(image_of(sample) if isinstance(sample, np.ndarray) else sample), PICTURES.suffix
    data = _content(sample, settings)
    return None if data is None else (data, f".{str(open_picture(data).format).lower()}")


def _text(sample: Sample, settings: AgentDataSettings) -> tuple[bytes, str] | None:
    if isinstance(sample, str):
        return _utf8(sample), TEXT.suffix
    data = _content(sample, settings)
    if data is None:
        return None
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise GiveError(f"sample: byte {error.start} is no UTF-8; save it as UTF-8") from error
    return data, TEXT.suffix


def _array(sample: Sample, settings: AgentDataSettings) -> tuple[bytes, str] | None:
    if not isinstance(sample, np.ndarray):
        data = _content(sample, settings)
        if data is None:
            return None
        ending = NPY
        if isinstance(sample, str | os.PathLike):
            ending = Path(sample).suffix.lower()
        if ending not in {NPY, NPZ}:
            raise GiveError(f"sample: {ending or 'no ending'} is not one sample; give {NPY}")
        sample = read_array(data, ending)
    shape = settings.shape
    if shape is not None and sample.shape not in {shape, (prod(shape),)}:
        raise GiveError(
            f"sample: shape {list(sample.shape)}, where data.shape is {list(shape)}; give one "
            "sample of that shape at a time"
        )
    return array_content(sample), ARRAY.suffix


_Encode = Callable[["Sample", AgentDataSettings], "tuple[bytes, str] | None"]
_KINDS: dict[str, tuple[_Encode, str]] = {
    PICTURES.name: (
        _picture,
        "an array of uint8 (height, width, 3), red first, or a Pillow image",
    ),
    TEXT.name: (_text, "a str"),
    ARRAY.name: (_array, "an array of numbers"),
}
"""Kind of sample -> how one becomes a file (None for what is none), and what to give in words."""


def _content(sample: Sample, settings: AgentDataSettings) -> bytes | None:
    """Return the content of a file that is given by it or by its path; None for anything else."""
    if isinstance(sample, bytes):
        return sample
    if isinstance(sample, str | os.PathLike):
        return read_limited(Path(sample), settings.kind)
    return None


def _utf8(text: str) -> bytes:
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise GiveError(f"sample: character {error.start} is half a pair; mend the text") from error


def _png(image: Image.Image) -> bytes:
    upright = ImageOps.exif_transpose(image)
    plain = upright if upright.mode in _PLAIN_MODES else decode_picture(upright, "RGB")
    file = io.BytesIO()
    # A fresh image has no texts and no profile with it, so the same pixels are the same bytes.
    Image.fromarray(np.asarray(plain)).save(file, "PNG", compress_level=_QUICK)
    return file.getvalue()


def keep_sample(root: Path, name: ClassName, content: tuple[bytes, str]) -> bool:
    """Write a sample into its class folder; return whether it was missing there.

    Raises `GiveError` where the disk refuses, or the sample lies under another class.
    """
    data, suffix = content
    file = f"{Digest.of(data)}{suffix}"
    try:
        folder = _class_folder(root, name)
        if folder is not None and (folder / file).exists():
            return False
        for other in _folders(root):
            if (root / other / file).exists():
                raise under_another(root / other / file, name)
        if folder is None:
            folder = root / name
            folder.mkdir()
            sync_folder(root)
        write_durably(folder / file, data)
    except OSError as error:
        raise GiveError(
            f"{root}: {error.strerror}; the sample was not taken. Free some space, mount the disk, "
            "or mend the folder's permissions"
        ) from error
    return True


def under_another(path: Path, name: ClassName) -> GiveError:
    """Return the error for a sample that lies at `path` under another class than `name`."""
    return GiveError(
        f"sample: {path} is the same under another class; move that file to {str(name)!r} if it "
        "was named wrongly"
    )


def _class_folder(root: Path, name: ClassName) -> Path | None:
    """Return the folder of a class as the disk has it, however its accents are typed."""
    if (root / name).is_dir():
        return root / name
    if name.isascii():
        return None
    return next(
        (root / other for other in _folders(root) if ClassName.normalise(other) == name), None
    )


def _folders(root: Path) -> list[str]:
    with os.scandir(root) as entries:
        return [one.name for one in entries if not is_left_alone(one.name) and one.is_dir()]
