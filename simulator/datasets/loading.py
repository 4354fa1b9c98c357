"""From the `[data]` of a scenario to samples: one line for each data set."""

from __future__ import annotations

from fleetledger.schemas.count_words import count_of
from fleetledger.simulator.datasets.digits import split_digits
from fleetledger.simulator.datasets.grammar import speak
from fleetledger.simulator.datasets.image_folder import load_image_folder
from fleetledger.simulator.datasets.imagenet import load_imagenet
from fleetledger.simulator.datasets.imagenet_r import load_imagenet_r
from fleetledger.simulator.datasets.images import Split
from fleetledger.simulator.datasets.mini_imagenet import load_mini_imagenet
from fleetledger.simulator.datasets.npz import load_npz
from fleetledger.simulator.datasets.omniglot import load_omniglot
from fleetledger.simulator.datasets.patterns import split_patterns
from fleetledger.simulator.datasets.roots import root_of
from fleetledger.simulator.datasets.samples import SampleSet, first_of_every_class
from fleetledger.simulator.datasets.speeches import read_speeches
from fleetledger.simulator.datasets.texts import split_texts
from fleetledger.simulator.datasets.tiny_imagenet import load_tiny_imagenet
from fleetledger.simulator.datasets.torchvision_sets import (
    CIFAR10,
    CIFAR100,
    FASHION_MNIST,
    load_torchvision,
)
from fleetledger.simulator.errors import DatasetError
from fleetledger.simulator.scenario.sections import DataSettings

_BY_TORCHVISION = {"cifar10": CIFAR10, "cifar100": CIFAR100, "fashion-mnist": FASHION_MNIST}


def load_split(data: DataSettings, seed: int) -> Split:
    """Return the data set in two parts, with at most the images per class that `data` allows.

    `seed` decides the split of a data set that has no test part of its own. Raises `DatasetError`
    that says what is missing, and what to put where.
    """
    split = _whole(data, seed)
    limited = Split(
        train=_limited(split.train, data.per_class), test=_limited(split.test, data.test_per_class)
    )
    if not len(limited.train) or not len(limited.test):
        raise DatasetError(
            f"data: {count_of(len(limited.train), 'picture')} to learn from and "
            f"{len(limited.test)} to be asked about; both are needed: change data.test_share, or "
            "add pictures"
        )
    return limited


def _whole(data: DataSettings, seed: int) -> Split:
    match data.set:
        case "digits":
            return split_digits(seed, data.test_share)
        case "npz":
            return load_npz(root_of(data, "the .npz file"))
        case "cifar10" | "cifar100" | "fashion-mnist":
            return load_torchvision(_BY_TORCHVISION[data.set], root_of(data))
        case "omniglot":
            return load_omniglot(root_of(data), data.test_share, seed)
        case "image-folder":
            return load_image_folder(root_of(data), data.test_share, seed)
        case "patterns":
            return split_patterns(data.patterns, seed)
        case "tiny-imagenet":
            return load_tiny_imagenet(root_of(data))
        case "mini-imagenet":
            return load_mini_imagenet(root_of(data), data.test_share, seed)
        case "imagenet":
            return load_imagenet(root_of(data))
        case "imagenet-r":
            return load_imagenet_r(root_of(data), data.test_share)
        case "shakespeare" | "grammar":
            is_file = data.set == "shakespeare"
            said = read_speeches(root_of(data, "the text file")) if is_file else speak()
            return split_texts(said, data.text, data.test_share)
        case _:
            raise DatasetError(
                f"data.set: {data.set!r} has pictures with masks, which show several classes; "
                "`fleetledger.simulator.datasets.segmentation.loading` reads them"
            )


def _limited(samples: SampleSet, per_class: int | None) -> SampleSet:
    if per_class is None:
        return samples
    return samples.take(first_of_every_class(samples.labels, per_class))
