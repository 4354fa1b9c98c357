"""Pascal VOC 2012 as torchvision's `VOCSegmentation` has it, with SBD beside it or without.

    root/VOCdevkit/VOC2012/JPEGImages/NAME.jpg
    root/VOCdevkit/VOC2012/SegmentationClass/NAME.png
    root/VOCdevkit/VOC2012/ImageSets/Segmentation/{train,val}.txt
    root/{img,cls}/ and root/{train,val}.txt     SBD as torchvision's `SBDataset`; or in root/sbd

VOC's 1,449 `val` pictures are the test part. Without SBD its 1,464 `train` pictures are to be
learned from. With SBD (Hariharan et al. 2011) come all of SBD's that are in neither of VOC's lists:
10,582 pictures, the usual augmented list.
"""

from __future__ import annotations

import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fleetledger.learning.errors import ImageError
from fleetledger.runtime.pip_command import pip_install
from fleetledger.schemas.values import ClassName
from fleetledger.simulator.datasets.folders import require_folder
from fleetledger.simulator.datasets.images import Split
from fleetledger.simulator.datasets.segmentation.files import Pair, SegmentedFiles, read_indices
from fleetledger.simulator.datasets.segmentation.mask_pairs import require_files
from fleetledger.simulator.errors import DatasetError

_NAMES = (
    *("aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat", "chair", "cow"),
    *("diningtable", "dog", "horse", "motorbike", "person", "pottedplant", "sheep", "sofa"),
    *("train", "tvmonitor"),
)
CLASS_NAMES = tuple(ClassName(name) for name in _NAMES)
_PARTS = ("train", "val")
_UNREADABLE = (KeyError, IndexError, TypeError, ValueError, NotImplementedError, zlib.error)
"""What scipy raises for files that are none of MATLAB's, torn, or hold something else."""
_VOC = "VOCdevkit/VOC2012"
_VOC_HINT = (
    'VOC 2012 is expected as torchvision unpacks it. To fetch it: python -c "from '
    "torchvision.datasets import VOCSegmentation; VOCSegmentation('{root}', download=True)\""
)
_SBD_HINT = "SBD is expected as torchvision's SBDataset has it: img/, cls/, train.txt and val.txt"


def load_voc(root: Path) -> Split[SegmentedFiles]:
    """Read both lists; raise `DatasetError` that says what to put where."""
    hint = _VOC_HINT.format(root=root)
    require_folder(root / _VOC, hint)
    train, test = (_listed(root / _VOC / "ImageSets/Segmentation", part) for part in _PARTS)
    pairs = [_voc_pair(name) for name in train]
    require_files(root, [*pairs, *(_voc_pair(name) for name in test)], hint)
    sbd = next((folder for folder in ("", "sbd/") if (root / folder / "cls").is_dir()), None)
    if sbd is not None:
        others = {name for part in _PARTS for name in _listed(root / sbd, part)}
        added = sorted(others - set(train) - set(test))
        pairs += require_files(root, [_sbd_pair(sbd, name) for name in added], _SBD_HINT)
    return Split(_files(root, pairs), _files(root, [_voc_pair(name) for name in test]))


def read_voc_mask(path: Path) -> NDArray[np.uint8]:
    """Return the values of VOC's palette PNG or of SBD's MATLAB file; raise `ImageError`."""
    return _read_matlab(path) if path.suffix == ".mat" else read_indices(path)


def _read_matlab(path: Path) -> NDArray[np.uint8]:
    try:
        from scipy.io import loadmat  # noqa: PLC0415 - in the extra `sbd`
        from scipy.io.matlab import MatReadError  # noqa: PLC0415
    except ImportError as error:
        raise ImageError(f"SBD's masks need scipy; {pip_install('sbd')}") from error
    try:
        values = loadmat(path)["GTcls"][0]["Segmentation"][0]
    except (*_UNREADABLE, MatReadError) as error:
        raise ImageError(
            f"mask: no GTcls.Segmentation can be read ({error}); copy the file again"
        ) from error
    if values.dtype != np.uint8 or values.ndim != 2:
        raise ImageError(
            f"mask: GTcls.Segmentation is {values.dtype} of shape {values.shape}; SBD's are uint8 "
            "(h, w)"
        )
    return np.ascontiguousarray(values)


def _files(root: Path, pairs: list[Pair]) -> SegmentedFiles:
    return SegmentedFiles(root, tuple(pairs), CLASS_NAMES, read_voc_mask)


def _voc_pair(name: str) -> Pair:
    return Pair(f"{_VOC}/JPEGImages/{name}.jpg", f"{_VOC}/SegmentationClass/{name}.png")


def _sbd_pair(folder: str, name: str) -> Pair:
    return Pair(f"{folder}img/{name}.jpg", f"{folder}cls/{name}.mat")


def _listed(folder: Path, part: str) -> list[str]:
    """Return the names of a list, one a line."""
    path = folder / f"{part}.txt"
    try:
        names = path.read_text(encoding="utf-8").split()
    except (OSError, UnicodeDecodeError) as error:
        raise DatasetError(f"{path}: cannot be read: {error}; copy the list again") from error
    if not names:
        raise DatasetError(f"{path}: names no picture; copy the list again")
    return names
