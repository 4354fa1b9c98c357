"""ImageNet (ILSVRC 2012) in its usual layout; classes are named by their WordNet number.

<root>/train/<wnid>/*.JPEG
<root>/val/<wnid>/*.JPEG
"""

from __future__ import annotations

from pathlib import Path

from fleetledger.simulator.datasets.files import ImageFiles
from fleetledger.simulator.datasets.folders import list_classes, split_of
from fleetledger.simulator.datasets.images import Split

_HINT = (
    "put ImageNet's pictures into train/<wnid>/ and val/<wnid>/ below data.root: unpack "
    "ILSVRC2012_img_train.tar and the archives in it, and sort the 50,000 pictures of "
    "ILSVRC2012_img_val.tar into folders by class. Get both from image-net.org"
)


def load_imagenet(root: Path) -> Split[ImageFiles]:
    """Read the names of the files; raise `DatasetError` that says what to put where."""
    return split_of(root, list_classes(root, "train", _HINT), list_classes(root, "val", _HINT))
