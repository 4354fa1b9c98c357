"""Any pictures in folders named after their classes.

<root>/train/<class>/*   and <root>/test/<class>/* or <root>/val/<class>/*
<root>/<class>/*         one part, cut in two by `test_share`
"""

from __future__ import annotations

from pathlib import Path

from fleetledger.simulator.datasets.files import ImageFiles
from fleetledger.simulator.datasets.folders import list_classes, split_by_share, split_of
from fleetledger.simulator.datasets.images import Split

_HINT = (
    "put pictures into train/<class>/ and test/<class>/ (or val/<class>/) below data.root, or all "
    "into <class>/, of which data.test_share becomes test pictures"
)


def load_image_folder(root: Path, test_share: float, seed: int) -> Split[ImageFiles]:
    """Read the names of the files; raise `DatasetError` that says what to put where."""
    if not (root / "train").is_dir():
        return split_by_share(root, list_classes(root, ".", _HINT), test_share, seed)
    part = "test" if (root / "test").is_dir() else "val"
    return split_of(root, list_classes(root, "train", _HINT), list_classes(root, part, _HINT))
