"""A few test scenes with what the model of every stage said of them, for people to look at.

They lie in the seed's folder as `scenes.npz`, at the size at which the network sees them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fleetledger.device_agent.samples.sources.masks import IGNORED
from fleetledger.runtime.count_words import count_of
from fleetledger.schemas.values import ClassName
from fleetledger.simulator.errors import MetricsError
from fleetledger.simulator.metrics.npz_files import read_npz

SCENES_FILE = "scenes.npz"
"""In a seed's folder."""
MOST_SCENES, LEAST_SCENES = 12, 4
_NAMES = ("pictures", "truth", "said", "class_names")
_MOST_BYTES = 1 << 30
_PLAIN = 0.5
"""Share of its median number of pixels from which on a class counts as well visible."""


@dataclass(frozen=True)
class ShownScenes:
    """S scenes and T stages. Raises `MetricsError` when shapes or values do not fit together."""

    pictures: NDArray[np.uint8]
    """(S, 3, h, w)."""
    truth: NDArray[np.uint8]
    """(S, h, w): labels plus one of all classes that ever come; 255 where nothing is asked."""
    said: NDArray[np.uint8]
    """(T, S, h, w): what the model of each stage said, in the same values."""
    class_names: tuple[ClassName, ...]
    """Labels index them."""

    def __post_init__(self) -> None:
        for name in ("pictures", "truth", "said"):
            if getattr(self, name).dtype != np.uint8:
                raise MetricsError(f"{name}: {getattr(self, name).dtype}; give uint8")
        if self.truth.ndim != 3 or not self.truth.size:
            raise MetricsError(f"truth: shape {self.truth.shape}; give (S, h, w)")
        scenes, *size = self.truth.shape
        if self.pictures.shape != (scenes, 3, *size) or self.said.shape[1:] != self.truth.shape:
            raise MetricsError(
                f"scenes: pictures {self.pictures.shape} and answers {self.said.shape} beside the "
                f"truth {self.truth.shape}; give (S, 3, h, w) and (T, S, h, w)"
            )
        highest = len(self.class_names)
        for name, values in (("truth", self.truth[self.truth != IGNORED]), ("said", self.said)):
            if values.size and values.max() > highest:
                raise MetricsError(
                    f"{name}: value {values.max()}; there are "
                    f"{count_of(highest, 'class', 'classes')}"
                )

    @property
    def stages(self) -> int:
        """T, the number of stages."""
        return len(self.said)

    def first(self, stages: int) -> ShownScenes:
        """Return the scenes with the answers of the first so many stages."""
        return ShownScenes(self.pictures, self.truth, self.said[:stages], self.class_names)

    def after(self, said: NDArray[np.uint8]) -> ShownScenes:
        """Return the scenes with the answers (S, h, w) of one more stage."""
        answers = np.concatenate([self.said, said[np.newaxis]])
        return ShownScenes(self.pictures, self.truth, answers, self.class_names)

    def save(self, path: Path) -> None:
        """Write as npz; `load` gives back the same."""
        with path.open("wb") as file:  # a path would get `.npz` added
            np.savez_compressed(
                file,
                pictures=self.pictures,
                truth=self.truth,
                said=self.said,
                class_names=np.array(self.class_names, np.str_),
            )

    @classmethod
    def load(cls, path: Path) -> ShownScenes:
        """Read what `save` wrote. Raises `MetricsError` when the file is missing or another."""
        held = read_npz(path, _NAMES, _MOST_BYTES)
        names = held.pop("class_names")
        try:
            return cls(**held, class_names=tuple(ClassName(str(name)) for name in names.ravel()))
        except (MetricsError, ValueError) as error:
            raise MetricsError(f"{path}: {error}; run the seed again") from error


def choose_scenes(pixels: NDArray[np.int64], labels: Sequence[int]) -> NDArray[np.int64]:
    """Return some scenes, ascending, in which all these classes come up, as far as 12 show them.

    `pixels` (N, C) counts those of each class in each scene. The same counts give the same scenes:
    always the one with most classes that are not shown yet, of equal ones the first. A class is
    shown by scenes in which it is not much smaller than usual. At least 4 are taken where there are
    as many with any class.
    """
    plain = _plain(pixels[:, list(labels)])
    missing = np.logical_or.reduce(plain)
    left = [int(scene) for scene in np.flatnonzero(plain.any(axis=1))]
    chosen: list[int] = []
    while left and len(chosen) < (MOST_SCENES if missing.any() else LEAST_SCENES):
        wanted = plain & missing if missing.any() else plain
        best = max(left, key=lambda scene: int(wanted[scene].sum()))
        chosen.append(best)
        left.remove(best)
        missing = np.logical_and(missing, ~plain[best])
    return np.array(sorted(chosen), np.int64)


def _plain(pixels: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return whether a class has at least half of the pixels that it has where it comes up."""
    usual = [np.median(column[column > 0]) if column.any() else 0.0 for column in pixels.T]
    return (pixels > 0) & (pixels >= _PLAIN * np.array(usual))
