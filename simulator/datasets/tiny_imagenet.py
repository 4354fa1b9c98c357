"""TinyImageNet-200 as it is unpacked; classes are named by their WordNet number.

<root>/train/<wnid>/images/*.JPEG
<root>/val/images/*.JPEG           with <root>/val/val_annotations.txt: file, class and box a line

`val` may also be sorted into class folders. Pictures of `test` have no published class.
"""

from __future__ import annotations

from pathlib import Path

from fleetledger.simulator.datasets.files import ImageFiles
from fleetledger.simulator.datasets.folders import Found, class_name, list_classes, split_of
from fleetledger.simulator.datasets.images import Split
from fleetledger.simulator.errors import DatasetError

_HINT = (
    "unpack http://cs231n.stanford.edu/tiny-imagenet-200.zip, and let data.root be the folder "
    "tiny-imagenet-200 that holds train and val"
)


def load_tiny_imagenet(root: Path) -> Split[ImageFiles]:
    """Read the names of the files; raise `DatasetError` that says what to put where."""
    train = list_classes(root, "train", _HINT)
    annotations = root / "val" / "val_annotations.txt"
    annotated = annotations.is_file() and (root / "val" / "images").is_dir()
    return split_of(root, train, _annotated(annotations) if annotated else _sorted(root))


def _sorted(root: Path) -> Found:
    return list_classes(root, "val", _HINT)


def _annotated(path: Path) -> Found:
    found: Found = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        fields = line.split("\t")
        if len(fields) < 2:
            raise DatasetError(f"{path}: line {number}: no file and class; {_HINT}")
        found.append((f"val/images/{fields[0]}", class_name(path, fields[1])))
    return found
