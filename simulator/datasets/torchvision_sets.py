"""CIFAR-10, CIFAR-100 and Fashion-MNIST through torchvision's own classes, which check the files.

Nothing is downloaded: an error names the files that are expected and the command that fetches them.
Importing torchvision takes torch, so without them the `.npz` layout is the way (docs/datasets.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fleetledger.runtime.pip_command import pip_install
from fleetledger.schemas.values import ClassName
from fleetledger.simulator.datasets.images import LabelledImages, Split
from fleetledger.simulator.errors import DatasetError


@dataclass(frozen=True)
class TorchvisionSet:
    """A data set as torchvision knows it."""

    name: str
    """Of torchvision's class."""
    files: str
    """What lies below the root, in words."""


CIFAR10 = TorchvisionSet("CIFAR10", "cifar-10-batches-py/ with data_batch_1 to 5 and test_batch")
CIFAR100 = TorchvisionSet("CIFAR100", "cifar-100-python/ with train, test and meta")
FASHION_MNIST = TorchvisionSet(
    "FashionMNIST", "FashionMNIST/raw/ with train-images-idx3-ubyte and the three others"
)
OMNIGLOT = TorchvisionSet(
    "Omniglot",
    "omniglot-py/ with images_background.zip, images_evaluation.zip and both of them unpacked",
)


def load_torchvision(kind: TorchvisionSet, root: Path) -> Split[LabelledImages]:
    """Read both parts into memory; raise `DatasetError` that says what to put where."""
    return Split(*(_part(open_torchvision(kind, root, train=part)) for part in (True, False)))


def open_torchvision(kind: TorchvisionSet, root: Path, **arguments: bool) -> Any:  # noqa: ANN401 - torchvision's class
    """Return torchvision's data set; raise `DatasetError` without torchvision or the files."""
    try:
        # torch takes seconds to import, and is an extra
        from fleetledger.export.torchvision_network import torchvision_module  # noqa: PLC0415

        dataset = getattr(torchvision_module("datasets"), kind.name)
    except ImportError as error:
        raise DatasetError(
            f"data.set: {kind.name} is read by torchvision, which is not installed; "
            f"{pip_install('train')}, or use set = 'npz' (docs/datasets.md)"
        ) from error
    try:
        return dataset(root, download=False, **arguments)
    except (RuntimeError, OSError, ValueError, AssertionError) as error:  # as torchvision has it
        told = ", ".join(f"{name}={value}" for name, value in arguments.items())
        raise DatasetError(
            f"{root}: {kind.name} is not there or damaged ({error}); expected is {kind.files}. "
            f'To fetch it: python -c "from torchvision.datasets import {kind.name}; '
            f"{kind.name}('{root}', {told}, download=True)\""
        ) from error


def _part(dataset: Any) -> LabelledImages:  # noqa: ANN401 - torchvision's class
    names = tuple(ClassName(name.replace("/", "-")) for name in dataset.classes)
    images = np.ascontiguousarray(np.asarray(dataset.data), np.uint8)
    return LabelledImages(images, np.asarray(dataset.targets, np.int64), names)
