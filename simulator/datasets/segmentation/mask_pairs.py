"""Finds the mask of every picture of a folder, and says which are missing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from fleetledger.device_agent.kinds import PICTURES
from fleetledger.device_agent.samples.sources.folder import is_sample
from fleetledger.simulator.datasets.folders import require_folder
from fleetledger.simulator.datasets.segmentation.files import Pair
from fleetledger.simulator.errors import DatasetError


def pair_by_name(root: Path, pictures: str, masks: str, hint: str, ending: str = "") -> list[Pair]:
    """Return the pictures of a folder, by name, with masks `NAME<ending>.png` of another.

    Folders are relative to `root`. Raises `DatasetError` with `hint`, what to put where, if a
    folder or all pictures are missing; and for pictures without a mask or masks without a picture.
    """
    for part in (pictures, masks):
        require_folder(root / part, hint)
    inside = (root / pictures).iterdir()
    files = sorted(path.name for path in inside if is_sample(path, PICTURES.suffixes))
    if not files:
        raise DatasetError(f"{root / pictures}: no pictures; {hint}")
    pairs = [Pair(f"{pictures}/{name}", f"{masks}/{Path(name).stem}{ending}.png") for name in files]
    alone = {path.name for path in (root / masks).glob("[!.]*.png")}
    alone -= {Path(pair.mask).name for pair in pairs}
    if alone:
        raise DatasetError(
            f"{root / masks}: {len(alone)} masks have no picture in {pictures}, such as "
            f"{min(alone)}; remove them, or add the pictures"
        )
    return require_files(root, pairs, hint)


def require_files(root: Path, pairs: Sequence[Pair], hint: str) -> list[Pair]:
    """Return the pairs; raise `DatasetError` with `hint` where files of them are missing."""
    missing = [path for pair in pairs for path in pair if not (root / path).is_file()]
    if missing:
        raise DatasetError(
            f"{root / missing[0]}: is missing, and {len(missing) - 1} more files are; {hint}"
        )
    return list(pairs)
