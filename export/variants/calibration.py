"""The images that variants are calibrated and measured on: a folder of the exporter's own.

Files count once, whatever they are called. They are taken in the order of their digests, so that
the same images give the same variants, and are dealt in turn: half to measure ranges on, half to
measure what is lost. A folder may hold folders named after classes, as devices have them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fleetledger.export.errors import CalibrationError
from fleetledger.export.variants.gate import LEAST_SAMPLES
from fleetledger.learning.errors import SampleError
from fleetledger.learning.numerics.arrays import ENDINGS, array_content, read_array, samples_in
from fleetledger.learning.numerics.preprocessing import preprocess
from fleetledger.runtime.count_words import count_of
from fleetledger.schemas.arrays import ArrayPreprocessing
from fleetledger.schemas.models import AnyPreprocessing
from fleetledger.schemas.values import Digest

MOST_CALIBRATED = 200
MOST_MEASURED = 1000
_LARGEST = 64 * 1024**2


@dataclass(frozen=True, eq=False)
class CalibrationImages:
    """Preprocessed samples (N, ...) to calibrate on, and others to measure on."""

    calibration: npt.NDArray[Any]
    held_out: npt.NDArray[Any]
    class_names: tuple[str, ...]
    """The folder of each of the latter; empty for one that lay in none."""


def read_images(folder: Path, preprocessing: AnyPreprocessing) -> CalibrationImages:
    """Read the samples in a folder and its folders; raise `CalibrationError`.

    What cannot be read as a sample is left out. A file of arrays may hold many.
    """
    found: dict[Digest, _Sample] = {}
    for path in _files(folder):
        for sample in _samples_in(path, preprocessing):
            found.setdefault(Digest.of(sample.data or b""), replace(sample, data=sample.kept))
    paths = [found[digest] for digest in sorted(found)]
    calibration, _ = _prepared(paths[::2][:MOST_CALIBRATED], preprocessing)
    held_out, kept = _prepared(paths[1::2][:MOST_MEASURED], preprocessing)
    if len(held_out) < LEAST_SAMPLES or not calibration:
        raise CalibrationError(
            f"calibration: {folder} has {count_of(len(calibration) + len(held_out), 'image')} that "
            f"can be read; give at least {2 * LEAST_SAMPLES}, like those that devices see: half of "
            "them measure what a variant loses, and fewer could not tell a point"
        )
    names = tuple("" if path.parent == folder else path.parent.name for path in kept)
    return CalibrationImages(np.stack(calibration), np.stack(held_out), names)


@dataclass(frozen=True)
class _Sample:
    """A sample in a file; the content of a row of many stays in memory."""

    path: Path
    data: bytes | None
    is_row: bool = False

    @property
    def kept(self) -> bytes | None:
        return self.data if self.is_row else None


def _samples_in(path: Path, preprocessing: AnyPreprocessing) -> list[_Sample]:
    data = _bytes_of(path)
    if data is None:
        return []
    if not isinstance(preprocessing, ArrayPreprocessing) or path.suffix.lower() not in ENDINGS:
        return [_Sample(path, data)]
    try:
        values = read_array(data, path.suffix.lower())
        rows = samples_in(values.shape, preprocessing.shape) is not None
        contents = map(array_content, values if rows else [values])
        return [_Sample(path, content, is_row=True) for content in contents]
    except SampleError:
        return []


def _files(folder: Path) -> list[Path]:
    if not folder.is_dir():
        raise CalibrationError(f"calibration: {folder} is no folder; give one with images")
    return sorted(
        path
        for path in folder.rglob("*")
        if path.is_file()
        and not any(part.startswith(".") for part in path.relative_to(folder).parts)
    )


def _bytes_of(path: Path) -> bytes | None:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise CalibrationError(
            f"calibration: {path}: cannot be read: {error.strerror}; mend or remove it"
        ) from error
    return data if 0 < len(data) <= _LARGEST else None


def _prepared(
    paths: list[_Sample], preprocessing: AnyPreprocessing
) -> tuple[list[npt.NDArray[Any]], list[Path]]:
    samples, kept = [], []
    for sample in paths:
        data = sample.data or _bytes_of(sample.path)
        try:
            samples.append(preprocess(data or b"", preprocessing))
        except SampleError:
            continue
        kept.append(sample.path)
    return samples, kept
