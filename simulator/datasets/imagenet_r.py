"""ImageNet-R, 200 classes of ImageNet as drawings, toys and the like; named by WordNet number.

<root>/<wnid>/*                                       as the archive is unpacked
<root>/train/<wnid>/* and <root>/test/<wnid>/*        as some programs hand it on
<root>/test.txt, and perhaps <root>/train.txt         beside the archive's folders: a file a line

The archive has no test part. Without lists, of every class those files become test pictures whose
`<wnid>/<file name>` has the smallest SHA-256, a share of `test_share`: the same for every seed and
on every machine. Of a line in a list the last two parts of the path count, so that lists of other
programs serve. Without `train.txt` everything that `test.txt` leaves is learned from.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path, PurePosixPath

from fleetledger.schemas.values import ClassName
from fleetledger.simulator.datasets.files import ImageFiles
from fleetledger.simulator.datasets.folders import Found, list_classes, split_of
from fleetledger.simulator.datasets.images import Split
from fleetledger.simulator.errors import DatasetError

_HINT = (
    "unpack https://people.eecs.berkeley.edu/~hendrycks/imagenet-r.tar, and let data.root be the "
    "folder imagenet-r that holds a folder for each WordNet number"
)


def load_imagenet_r(root: Path, test_share: float) -> Split[ImageFiles]:
    """Read the names of the files; raise `DatasetError` that says what to put where."""
    if (root / "train").is_dir():
        return split_of(root, list_classes(root, "train", _HINT), list_classes(root, "test", _HINT))
    found = list_classes(root, ".", _HINT)
    if (root / "test.txt").is_file():
        return split_of(root, *_listed(root, found))
    test = set(_smallest(found, test_share))
    return split_of(root, [item for item in found if item not in test], sorted(test))


def _smallest(found: Found, share: float) -> Iterator[tuple[str, ClassName]]:
    """Yield of every class the files with the smallest digests; raise where it is no share."""
    if not 0 < share < 1:
        raise DatasetError(f"test_share: {share} is not a share; give one between 0 and 1")
    for _, files in groupby(found, key=lambda item: item[1]):
        members = sorted(files, key=lambda item: _digest(item[0]))
        yield from members[: round(share * len(members))]


def _digest(path: str) -> bytes:
    return hashlib.sha256(_named(path).encode("utf-8", "surrogateescape")).digest()


def _named(path: str) -> str:
    """Return the last two parts of a path, `<wnid>/<file name>`."""
    return "/".join(PurePosixPath(path.replace("\\", "/")).parts[-2:])


def _listed(root: Path, found: Found) -> tuple[Found, Found]:
    """Return the files to learn from and to be asked about, as the lists have them."""
    known = {_named(path): (path, name) for path, name in found}
    test = _read(root / "test.txt", known)
    if (root / "train.txt").is_file():
        train = _read(root / "train.txt", known)
        twice = next((name for name in train if name in test), None)
        if twice is not None:
            raise DatasetError(f"{root}: {twice} stands in train.txt and in test.txt; take it out")
    else:
        train = {name: item for name, item in known.items() if name not in test}
    return list(train.values()), list(test.values())


def _read(path: Path, known: dict[str, tuple[str, ClassName]]) -> dict[str, tuple[str, ClassName]]:
    """Return the files of a list, by what names them; raise `DatasetError` for one not there."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise DatasetError(f"{path}: cannot be read: {error}; give a file a line") from error
    listed = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        name = _named(line.strip())
        if name not in known:
            raise DatasetError(
                f"{path}: line {number}: {line.strip()!r} is not among the pictures of "
                f"{path.parent}; give <wnid>/<file name> of one that is there"
            )
        listed[name] = known[name]
    return listed
