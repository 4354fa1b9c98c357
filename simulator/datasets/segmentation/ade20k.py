"""ADE20k as the challenge of 2016 gave it out, with 150 classes.

    root/ADEChallengeData2016/images/{training,validation}/NAME.jpg
    root/ADEChallengeData2016/annotations/{training,validation}/NAME.png
    root/ADEChallengeData2016/objectInfo150.txt         number and names of every class

The 20,210 training pictures are to be learned from, the 2,000 validation pictures are the test
part. Value 0, "other objects", is background here. A class is called by its first name.
"""

from __future__ import annotations

import re
from pathlib import Path

from fleetledger.runtime.count_words import count_of
from fleetledger.schemas.values import ClassName
from fleetledger.simulator.datasets.folders import class_name, require_folder
from fleetledger.simulator.datasets.images import Split
from fleetledger.simulator.datasets.segmentation.files import SegmentedFiles
from fleetledger.simulator.datasets.segmentation.mask_pairs import pair_by_name
from fleetledger.simulator.errors import DatasetError

_FOLDER = "ADEChallengeData2016"
_INFO = "objectInfo150.txt"
_HINT = (
    "ADEChallengeData2016.zip of the scene parsing challenge is expected, unpacked: images/, "
    "annotations/ and " + _INFO
)
_ROW = re.compile(r"\s*(\d+)\s+[\d.]+\s+\d+\s+\d+\s+(?:[01]\s+)?(\D.*)")
"""Number, share, pictures to train and to test with, names; some copies have a column more."""


def load_ade20k(root: Path) -> Split[SegmentedFiles]:
    """Read both parts; raise `DatasetError` that says what to put where."""
    folder = root / _FOLDER
    require_folder(folder, _HINT)
    names = read_names(folder / _INFO)
    train, test = (
        pair_by_name(folder, f"images/{part}", f"annotations/{part}", _HINT)
        for part in ("training", "validation")
    )
    return Split(*(SegmentedFiles(folder, tuple(part), names) for part in (train, test)))


def read_names(path: Path) -> tuple[ClassName, ...]:
    """Return the first name of every class, by number; raise `DatasetError`."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise DatasetError(f"{path}: cannot be read: {error}; {_HINT}") from error
    rows = [found.groups() for line in lines if (found := _ROW.fullmatch(line))]
    if [int(number) for number, _ in rows] != list(range(1, len(rows) + 1)) or not rows:
        raise DatasetError(
            f"{path}: {count_of(len(rows), 'class', 'classes')} that do not count from 1 on; copy "
            "the file again"
        )
    return tuple(class_name(path, names.split(",")[0].strip()) for _, names in rows)
