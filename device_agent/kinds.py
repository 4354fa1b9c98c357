"""Kinds of samples, a value for each, with all that differs by them.

`[data] samples` of agent.toml names one, and so does a data set of the simulator. Another kind is
another value, and a mode of preprocessing of its name that reads the content of its files.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Literal

from fleetledger.learning.errors import ArrayError, ImageError, SampleError, TextError
from fleetledger.runtime.strict import NameIn

if TYPE_CHECKING:  # `agent status` needs no manifest
    from fleetledger.schemas.models import AnyPreprocessing

MAX_FILE_BYTES = 64 << 20
"""Larger files are refused before they are read."""


@dataclass(frozen=True, eq=False)
class SampleKind:
    """A kind of sample by the name that settings give it."""

    name: str
    noun: str
    """What people call one; of several, with an s."""
    suffixes: AbstractSet[str] = frozenset()
    """Endings of its files, in small letters."""
    unread: AbstractSet[str] = frozenset()
    """Endings of such files that are not read: a folder that has some says so."""
    suffix: str = ".png"
    """Ending of the files that the simulator writes."""
    convert: str = "JPEG or PNG"
    """What files of the endings `unread` are to be made into."""
    many: bool = False
    """Whether a file may hold many samples (`device_agent.samples.array_files`)."""
    masked: bool = False
    """Whether masks give every pixel a class, in one folder; else each class has a folder."""
    most_bytes: int = MAX_FILE_BYTES
    smaller: str = "scale it down"
    """Way out for a larger file."""
    error: type[SampleError] = ImageError
    """Raised for a file that cannot be read."""


PICTURES = SampleKind(
    "pictures",
    "image",
    {
        *(".bmp", ".dib", ".gif", ".jfif", ".jpe", ".jpeg", ".jpg", ".pbm", ".pgm", ".png"),
        *(".pnm", ".ppm", ".tif", ".tiff", ".webp"),
    },
    {
        *(".arw", ".avif", ".cr2", ".cr3", ".dng", ".heic", ".heif", ".hif", ".j2k", ".jp2"),
        *(".jpx", ".jxl", ".nef", ".orf", ".psd", ".raw", ".rw2", ".svg", ".tga"),
    },
)
TEXT = SampleKind(
    "text",
    "text",
    {".txt"},
    suffix=".txt",
    most_bytes=1 << 20,
    smaller="cut it into several",
    error=TextError,
)
ARRAY = SampleKind(
    "array",
    "array",
    {".npy", ".npz", ".parquet"},
    {".arrow", ".csv", ".feather", ".h5", ".hdf5", ".mat", ".pickle", ".pkl", ".pt", ".wav"},
    suffix=".npy",
    convert=".npy (numpy.save) or Parquet",
    many=True,
    smaller="cut it into several",
    error=ArrayError,
)
SCENES = replace(PICTURES, name="scenes", noun="scene", masked=True)
NOTHING = SampleKind("none", "sample")
"""That of a device which only runs models: no file is a sample."""
KINDS = {kind.name: kind for kind in (PICTURES, TEXT, ARRAY, SCENES, NOTHING)}
Samples = Annotated[str, NameIn(KINDS)]
Exemplars = Literal["images", "features"]
"""As what a device keeps samples of older classes."""


def kind_of(preprocessing: AnyPreprocessing) -> SampleKind:
    """Return the kind of sample that a model takes: its mode names it, or a mode of pictures."""
    return KINDS.get(preprocessing.mode, PICTURES)
