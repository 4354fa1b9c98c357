"""Data sets that scenarios name, a value for each, and how one is read."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, JsonValue

from fleetledger.device_agent.kinds import ARRAY, PICTURES, SCENES, TEXT, SampleKind
from fleetledger.device_agent.samples.array_files import Shape
from fleetledger.runtime.count_words import count_of
from fleetledger.runtime.errors import shorten
from fleetledger.runtime.registry import Registry, RegistryError
from fleetledger.runtime.strict import NameIn, Strict
from fleetledger.simulator.datasets.digit_styles import split_digit_styles
from fleetledger.simulator.datasets.digits import split_digits
from fleetledger.simulator.datasets.grammar import speak
from fleetledger.simulator.datasets.image_folder import load_image_folder
from fleetledger.simulator.datasets.imagenet import load_imagenet
from fleetledger.simulator.datasets.imagenet_r import load_imagenet_r
from fleetledger.simulator.datasets.images import Split
from fleetledger.simulator.datasets.labels import first_of_every_class
from fleetledger.simulator.datasets.mini_imagenet import load_mini_imagenet
from fleetledger.simulator.datasets.npz import load_npz, load_segmentation_npz
from fleetledger.simulator.datasets.omniglot import load_omniglot
from fleetledger.simulator.datasets.patterns import PatternSettings, split_patterns
from fleetledger.simulator.datasets.sample_folder import load_samples, load_text_table
from fleetledger.simulator.datasets.samples import SampleSet
from fleetledger.simulator.datasets.segmentation.ade20k import load_ade20k
from fleetledger.simulator.datasets.segmentation.camvid import load_camvid
from fleetledger.simulator.datasets.segmentation.digit_scenes import (
    SceneSettings,
    split_digit_scenes,
)
from fleetledger.simulator.datasets.segmentation.voc import load_voc
from fleetledger.simulator.datasets.sensors import make_sensors
from fleetledger.simulator.datasets.speeches import read_speeches
from fleetledger.simulator.datasets.texts import TextSettings, split_texts
from fleetledger.simulator.datasets.tiny_imagenet import load_tiny_imagenet
from fleetledger.simulator.datasets.torchvision_sets import (
    CIFAR10,
    CIFAR100,
    FASHION_MNIST,
    load_torchvision,
)
from fleetledger.simulator.errors import DatasetError

OWN = SampleKind("own", "sample")
"""Kind of a data set from outside, which tells it when it is read."""
MakeSplit = Callable[..., Split]
"""A data set of one's own: `(root, seed, **options)` to its two parts."""
Share = Annotated[float, Field(gt=0, le=1)]


@dataclass(frozen=True)
class DataSet:
    """A data set by the name that `[data]` gives it."""

    read: Callable[[DataSettings, int], Split]
    """Returns both parts whole. The seed decides the split of a set that has no test part of its
    own. Raises `DatasetError` that says what is missing, and what to put where."""
    kind: SampleKind = PICTURES
    stands_in: bool = False
    """Whether it takes the place of one of its kind that is not at hand."""
    on_disk: bool = True
    """Whether `data.root` says where it lies; else it is made on the spot or comes along."""
    coloured: bool = True
    """Whether there are pictures in colour."""
    by_torchvision: bool = False
    """Whether torchvision reads it."""
    owners: bool = False
    """Whether it may know who made a picture or said a text."""
    of_cifar_100: bool = False
    """Whether it can hold the classes of CIFAR-100."""
    shape: tuple[int, int, int] = (32, 32, 3)
    """Height, width and channels of its pictures; usual ones where they differ."""
    options: frozenset[str] | None = frozenset()
    """Names that `[data.options]` may have; None where its function says."""

    @classmethod
    def made_by(
        cls, make: MakeSplit, *, kind: SampleKind = OWN, stands_in: bool = False
    ) -> DataSet:
        """Return the data set of a function `(root, seed, **options)`."""

        def read(data: DataSettings, seed: int) -> Split:
            root = None if data.root is None else Path(data.root).expanduser()
            _check_options(make, data.options)
            split = make(root, seed, **data.options)
            if not isinstance(split, Split):
                raise DatasetError(
                    f"data.set: {data.set!r} made a {type(split).__name__}; return a "
                    "fleetledger.Split"
                )
            return split

        return cls(
            read,
            kind=kind,
            stands_in=stands_in,
            on_disk=False,
            coloured=False,
            owners=True,
            options=None,
        )


def _check_options(make: MakeSplit, options: Mapping[str, object]) -> None:
    """Raise `DatasetError` for options that a function does not take."""
    try:
        inspect.signature(make).bind(None, 0, **options)
    except TypeError as error:
        known = list(inspect.signature(make).parameters)[2:]
        raise DatasetError(
            f"data.options: {sorted(options)}: {error}; it takes {', '.join(known) or 'none'}"
        ) from error


def _taken(name: str, value: object) -> DataSet:
    """Return what a distribution or a program registers as a data set."""
    if isinstance(value, DataSet):
        return value
    if callable(value):
        return DataSet.made_by(value)
    raise RegistryError(
        f"data set: {name!r} is {shorten(value)}; give a function (root, seed) that returns a "
        "fleetledger.Split"
    )


DATA_SETS = Registry[DataSet]("data set", "fleetledger.datasets", _taken)
"""By name; what else is known of a data set follows from its value. A name is taken by `[data]`
once it is here."""


class DataSettings(Strict):
    """`[data]`: which images, and how many of them."""

    set: Annotated[str, NameIn(DATA_SETS)] = "digits"
    """Name of the data set; docs/datasets.md describes them."""
    root: str | None = None
    """Folder of the data set, or the file for `npz`, `segmentation-npz` and `shakespeare`.
    `digits`, `digit-styles`, `patterns`, `digit-scenes` and `grammar` need none."""
    per_class: int | None = Field(default=None, ge=1)
    """At most so many training images of every class; left out, all. Of pictures with masks, which
    show several classes, the first so many with each, so that a class may come to more."""
    test_per_class: int | None = Field(default=None, ge=1)
    """At most so many test images of every class; left out, all."""
    test_share: Share = 0.25
    """Share of every class that becomes test data, where a data set has no test part of its own
    (digits, digit-styles, omniglot, imagenet-r, an image-folder without `test` or `val`); of texts
    the last share of what every speaker says; of digit-scenes that of the scans which only test
    scenes are drawn from."""
    test_hue: float = Field(default=0.0, ge=0, le=0.5)
    """The most by which the hue of each test picture is turned by chance, as a share of the colour
    circle; of pictures in colour."""
    text: TextSettings = TextSettings()
    """How texts become samples."""
    patterns: PatternSettings = PatternSettings()
    """Number and size of `patterns`."""
    scenes: SceneSettings = SceneSettings()
    """Number and size of `digit-scenes`."""
    options: dict[str, JsonValue] = Field(default_factory=dict)
    """What a data set of one's own is given beside root and seed, by name; so are `sensors`
    (`train`, `test`, `people`, `moments`), and the `shape` of a sample in `array-folder`."""

    @property
    def known(self) -> DataSet:
        """What is known of the data set."""
        return DATA_SETS[self.set]


def stand_in_for(kind: SampleKind) -> str:
    """Return the name of the data set of a kind that is made on the spot."""
    return next(name for name in names_of(kind) if DATA_SETS[name].stands_in)


def names_of(kind: SampleKind) -> list[str]:
    """Return the names of the data sets of one kind."""
    return [name for name, each in DATA_SETS.items() if each.kind is kind]


def load_split(data: DataSettings, seed: int) -> Split:
    """Return the data set in two parts, with at most the images per class that `data` allows.

    Raises `DatasetError` that says what is missing, and what to put where.
    """
    known = DATA_SETS[data.set]
    strange = [] if known.options is None else sorted(data.options.keys() - known.options)
    if strange:
        raise DatasetError(
            f"data.options.{strange[0]}: unknown to the data set {data.set!r}; leave it out"
            + (f", or give {', '.join(sorted(known.options or ()))}" if known.options else "")
        )
    split = known.read(data, seed)
    limited = Split(
        train=_limited(split.train, data.per_class), test=_limited(split.test, data.test_per_class)
    )
    if not len(limited.train) or not len(limited.test):
        raise DatasetError(
            f"data: {count_of(len(limited.train), 'sample')} to learn from and "
            f"{len(limited.test)} to be asked about; both are needed: change data.test_share, or "
            "add samples"
        )
    return limited


def _limited(samples: SampleSet, per_class: int | None) -> SampleSet:
    if per_class is None:
        return samples
    return samples.take(first_of_every_class(samples.labels, per_class))


def _root(data: DataSettings, what: str = "the folder of the data set") -> Path:
    """Return the file or folder that `[data]` names; raise `DatasetError` where it names none."""
    if data.root is None:
        raise DatasetError(
            f"data.root: missing; {data.set!r} lies on disk, so give {what} (docs/datasets.md "
            "tells the layout)"
        )
    return Path(data.root).expanduser()


def _shape(data: DataSettings) -> Shape | None:
    """Return `data.options.shape`; raise `DatasetError` unless it is one."""
    shape: Any = data.options.get("shape")
    if shape is None:
        return None
    if not isinstance(shape, list) or not all(type(axis) is int and axis > 0 for axis in shape):
        raise DatasetError(f"data.options.shape: {shape!r}; give axes such as [6, 128]")
    return tuple(shape)


DATA_SETS.own(
    {
        "digits": DataSet(
            lambda data, seed: split_digits(seed, data.test_share), on_disk=False, coloured=False
        ),
        "digit-styles": DataSet(
            lambda data, seed: split_digit_styles(seed, data.test_share),
            on_disk=False,
            coloured=False,
        ),
        "npz": DataSet(
            lambda data, _seed: load_npz(_root(data, "the .npz file")),
            owners=True,
            of_cifar_100=True,
        ),
        "cifar10": DataSet(
            lambda data, _seed: load_torchvision(CIFAR10, _root(data)), by_torchvision=True
        ),
        "cifar100": DataSet(
            lambda data, _seed: load_torchvision(CIFAR100, _root(data)),
            by_torchvision=True,
            of_cifar_100=True,
        ),
        "fashion-mnist": DataSet(
            lambda data, _seed: load_torchvision(FASHION_MNIST, _root(data)),
            shape=(28, 28, 1),
            coloured=False,
            by_torchvision=True,
        ),
        "omniglot": DataSet(
            lambda data, seed: load_omniglot(_root(data), data.test_share, seed),
            owners=True,
            shape=(105, 105, 1),
            coloured=False,
            by_torchvision=True,
        ),
        "image-folder": DataSet(
            lambda data, seed: load_image_folder(_root(data), data.test_share, seed),
            shape=(224, 224, 3),
        ),
        "patterns": DataSet(
            lambda data, seed: split_patterns(data.patterns, seed),
            on_disk=False,
            stands_in=True,
            owners=True,
        ),
        "tiny-imagenet": DataSet(
            lambda data, _seed: load_tiny_imagenet(_root(data)), shape=(64, 64, 3)
        ),
        "mini-imagenet": DataSet(
            lambda data, seed: load_mini_imagenet(_root(data), data.test_share, seed),
            shape=(84, 84, 3),
        ),
        "imagenet": DataSet(lambda data, _seed: load_imagenet(_root(data)), shape=(375, 500, 3)),
        "imagenet-r": DataSet(
            lambda data, _seed: load_imagenet_r(_root(data), data.test_share), shape=(375, 500, 3)
        ),
        "shakespeare": DataSet(
            lambda data, _seed: split_texts(
                read_speeches(_root(data, "the text file")), data.text, data.test_share
            ),
            kind=TEXT,
            owners=True,
            coloured=False,
        ),
        "grammar": DataSet(
            lambda data, _seed: split_texts(speak(), data.text, data.test_share),
            kind=TEXT,
            stands_in=True,
            owners=True,
            on_disk=False,
            coloured=False,
        ),
        "sensors": DataSet.made_by(make_sensors, kind=ARRAY, stands_in=True),
        "array-folder": DataSet(
            lambda data, seed: load_samples(
                _root(data), ARRAY, (data.test_share, seed), _shape(data)
            ),
            kind=ARRAY,
            coloured=False,
            options=frozenset({"shape"}),
        ),
        "text-folder": DataSet(
            lambda data, seed: load_samples(_root(data), TEXT, (data.test_share, seed)),
            kind=TEXT,
            coloured=False,
        ),
        "text-table": DataSet(
            lambda data, seed: load_text_table(
                _root(data, "the .csv or .jsonl file"), data.test_share, seed
            ),
            kind=TEXT,
            coloured=False,
            owners=True,
        ),
        "digit-scenes": DataSet(
            lambda data, seed: split_digit_scenes(data.scenes, seed, data.test_share),
            kind=SCENES,
            stands_in=True,
            on_disk=False,
        ),
        "voc": DataSet(lambda data, _seed: load_voc(_root(data)), kind=SCENES, shape=(375, 500, 3)),
        "ade20k": DataSet(
            lambda data, _seed: load_ade20k(_root(data)), kind=SCENES, shape=(512, 683, 3)
        ),
        "camvid": DataSet(
            lambda data, _seed: load_camvid(_root(data)), kind=SCENES, shape=(360, 480, 3)
        ),
        "segmentation-npz": DataSet(
            lambda data, _seed: load_segmentation_npz(_root(data, "the .npz file")),
            kind=SCENES,
            shape=(120, 160, 3),
        ),
    }
)
