"""The data sets of the table, all made of one file: CIFAR-100's core, and its frozen features.

core               200 training and 50 test images of each class, as the file has them
held_out           the first 150 training images of each class, and the other 50 in place of the
                   test images: what rates are chosen by
pictures           the features of core in 8 bits, laid out as pictures of 26 by 26 pixels, for
                   methods that train on pictures alone: f = 6 p / 255, zeros behind the last
held_out_pictures  the same of held_out
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt
from rich.console import Console

from benchmarks.papers.footing.held_out import HELD_OUT, KEPT, held_out, save_whole
from fleetledger.simulator.datasets.images import LabelledImages, Split
from fleetledger.simulator.datasets.samples import SampleSet
from fleetledger.simulator.engines.network_inputs import Inputs, inputs_of
from fleetledger.simulator.run.preparation import PreparedSeed
from fleetledger.simulator.run.progress import Screen
from fleetledger.simulator.scenario.loading import load_scenario

SIDE, CHANNELS = 26, 3
"""3 * 26 * 26 = 2,028 values hold the 1,920 features."""
LARGEST = 6.0
"""Of a feature: layers end in ReLU6. What the import scales beyond is cut there."""
LEVELS = 255


@dataclass(frozen=True)
class Material:
    """Where the files are."""

    core: Path
    folder: Path
    """Of those that are made."""
    per_class_kept: int = field(default=KEPT, init=False)
    per_class_held_out: int = field(default=HELD_OUT, init=False)

    @property
    def held_out(self) -> Path:
        """Images to choose rates by."""
        return self.folder / "held_out.npz"

    @property
    def pictures(self) -> Path:
        """Features as pictures."""
        return self.folder / "pictures.npz"

    @property
    def held_out_pictures(self) -> Path:
        """Features as pictures, to choose rates by."""
        return self.folder / "held_out_pictures.npz"


def make_material(core: Path, folder: Path, scenario: str) -> Material:
    """Make what is missing; features are those of the scenario, from the cache or extracted."""
    material = Material(core, folder)
    folder.mkdir(parents=True, exist_ok=True)
    made = (material.held_out, material.pictures, material.held_out_pictures)
    if all(path.exists() for path in made):
        return material
    split, pictures = _with_features(core, scenario)
    for path, whole in zip(made, (split, pictures, pictures), strict=True):
        part = whole if path == material.pictures else held_out(whole)
        save_whole(path, part)
    return material


def feature_pictures(features: npt.NDArray[np.float32]) -> npt.NDArray[np.uint8]:
    """Return features (n, d) as pictures (n, 26, 26, 3), to a step of 6 / 255."""
    levels = np.clip(np.rint(features * (LEVELS / LARGEST)), 0, LEVELS).astype(np.uint8)
    values = np.zeros((len(levels), CHANNELS * SIDE * SIDE), np.uint8)
    values[:, : levels.shape[1]] = levels
    return values.reshape(-1, SIDE, SIDE, CHANNELS)


def _with_features(
    core: Path, scenario: str
) -> tuple[Split[LabelledImages], Split[LabelledImages]]:
    """Return the scenario's images, and their features as pictures."""
    changes = [
        f"data.root={core}",
        "method.name=rounds",
        "method.on_features=true",
        "method.settings.network=identity",
    ]
    loaded = load_scenario(scenario, changes)
    seed = PreparedSeed.load(loaded, loaded.seeds[0])
    inputs = inputs_of(seed.prepare(Screen(Console(stderr=True), seeds=1)))
    images = Split(train=_in_memory(seed.split.train), test=_in_memory(seed.split.test))
    features = Split(train=_seen(images.train, inputs.train), test=_seen(images.test, inputs.test))
    return images, features


def _in_memory(samples: SampleSet) -> LabelledImages:
    assert isinstance(samples, LabelledImages), "the core is an .npz file"
    return samples


def _seen(part: LabelledImages, features: Inputs) -> LabelledImages:
    rows = np.arange(len(part), dtype=np.int64)
    return LabelledImages(feature_pictures(features(rows)), part.labels, part.class_names)
