"""Test scenes of a run: picture, truth, and what the models before and after the last stage say."""

from __future__ import annotations

from pathlib import Path

from fleetledger.runtime.count_words import count_of
from fleetledger.simulator.errors import MetricsError
from fleetledger.simulator.metrics.results import RunResults
from fleetledger.simulator.report.pages.renderer import Shown
from fleetledger.simulator.report.pictures.segmentation import SegmentedScene, draw_segmentation
from fleetledger.simulator.report.pictures.style import as_png
from fleetledger.simulator.shown_scenes import SCENES_FILE, ShownScenes

_FILE = "scenes.png"
_TITLE = "Test scenes before and after the last stage"
_CAPTION = (
    "Some test scenes of the first seed, as the network sees them, chosen so that all classes come "
    "up as far as {number} scenes show them: picture, truth, and what the exported models of the "
    "last two stages say."
)


def scenes_picture(run_folder: Path, results: RunResults) -> Shown | None:
    """Return the scenes that the first seed kept; None of a run without masks.

    Raises `MetricsError` where the file is missing or another's.
    """
    if results.score != "mIoU":
        return None
    seed = next(iter(results.seeds))
    path = run_folder / f"seed-{seed}" / SCENES_FILE
    shown = ShownScenes.load(path)
    if shown.stages < len(results.first.stages):
        raise MetricsError(
            f"{path}: answers of {count_of(shown.stages, 'stage')}, where the run has "
            f"{len(results.first.stages)}; run the seed again"
        )
    drawn = draw_segmentation(segmented_scenes(shown), shown.class_names)
    caption = _CAPTION.format(number=len(shown.truth))
    return Shown(_FILE, _TITLE, caption, as_png(drawn), natural=True)


def segmented_scenes(shown: ShownScenes) -> list[SegmentedScene]:
    """Return a row per scene: the truth, the last model but one, the last one."""
    last = shown.stages
    return [
        SegmentedScene(
            picture,
            {"truth": truth}
            | {
                f"{'new' if stage == last else 'old'} model (stage {stage})": said[stage - 1]
                for stage in range(max(1, last - 1), last + 1)
            },
        )
        for picture, truth, said in zip(
            shown.pictures, shown.truth, shown.said.swapaxes(0, 1), strict=True
        )
    ]
