"""Runs side by side in pictures: curves of mIoU, and what models say of the same test scenes."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.papers.fbl_tables.cases import METHODS
from fleetledger.simulator.metrics.results import RunResults
from fleetledger.simulator.report.comparison import compare
from fleetledger.simulator.report.pictures.segmentation import SegmentedScene, draw_segmentation
from fleetledger.simulator.report.pictures.style import as_png
from fleetledger.simulator.shown_scenes import SCENES_FILE, ShownScenes

_SHOWN = ("fbl", "finetuning", "mib", "plop")
_SCENES = 5
_CURVES = (*("fbl", "as-printed", "without-apl", "without-fsc", "without-frc"), *_SHOWN[1:])
"""As many as there are colours."""


def draw_curves(folders: Sequence[Path], path: Path) -> None:
    """Draw mIoU by task of up to eight runs, as `fleetledger simulate compare` does."""
    drawn = [folder for folder in folders if folder.name in _CURVES]
    if len(drawn) < 2:
        return
    with tempfile.TemporaryDirectory() as scratch:
        compare(*drawn).write(Path(scratch))
        shutil.copy(Path(scratch, "compare.png"), path)


def draw_scenes(folders: Sequence[Path], path: Path) -> None:
    """Draw test scenes with their truth and what the last models of some methods say of them."""
    shown = {folder.name: scenes_of(folder) for folder in folders if folder.name in _SHOWN}
    if shown:
        scenes = side_by_side({METHODS[name]: found for name, found in shown.items()})
        names = next(iter(shown.values())).class_names
        path.write_bytes(as_png(draw_segmentation(scenes[:_SCENES], names)))


def scenes_of(folder: Path) -> ShownScenes:
    """Return the scenes that a run's first seed kept."""
    seed = next(iter(RunResults.read(folder).seeds))
    return ShownScenes.load(folder / f"seed-{seed}" / SCENES_FILE)


def side_by_side(shown: dict[str, ShownScenes]) -> list[SegmentedScene]:
    """Return a row per scene: the truth, and what the last model of each run says.

    The runs must have asked about the same scenes: equal scenarios and seeds have.
    """
    first = next(iter(shown.values()))
    return [
        SegmentedScene(
            picture,
            {"truth": first.truth[number]}
            | {title: found.said[-1][number] for title, found in shown.items()},
        )
        for number, picture in enumerate(first.pictures)
    ]
