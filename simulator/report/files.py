"""Write everything that people look at into a run's folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pydantic import ValidationError

from fleetledger.runtime.count_words import count_of
from fleetledger.schemas.message import explain
from fleetledger.simulator.errors import MetricsError, RunError
from fleetledger.simulator.metrics.results import RunResults
from fleetledger.simulator.records import StageRecord
from fleetledger.simulator.report.csv_files import (
    write_devices_csv,
    write_novelty_csv,
    write_results_csv,
)
from fleetledger.simulator.report.pages.renderer import Shown
from fleetledger.simulator.report.pictures.gallery import pictures_of, write_figures
from fleetledger.simulator.report.pictures.segmentation import SegmentedScene, draw_segmentation
from fleetledger.simulator.report.pictures.style import as_png
from fleetledger.simulator.report.run_page import run_page
from fleetledger.simulator.report.tables.novelty import has_novelty_checks
from fleetledger.simulator.shown_scenes import SCENES_FILE, ShownScenes


def write_report(run_folder: Path, results: RunResults, figures: Sequence[str] = ()) -> list[Path]:
    """Write results.json, the CSV files, the pictures and report.html; return their paths.

    `novelty_checks.csv` is there where devices looked; `devices.csv` is made from the records in
    `seed-<n>/stages.jsonl`, `scenes.png` from `scenes.npz` beside them. The numbers come first, so
    that they are there whatever happens to a picture. `figures` are formats in which pictures are
    written besides, but for the scenes, which are pixels. Raises `RunError` where records are
    missing, `MetricsError` where scenes are.
    """
    written = [results.write(run_folder)]
    written.append(run_folder / "results.csv")
    write_results_csv(written[-1], results)
    written.append(run_folder / "devices.csv")
    write_devices_csv(
        written[-1], ((seed, read_records(run_folder, seed)) for seed in results.seeds)
    )
    if has_novelty_checks(results):
        written.append(run_folder / "novelty_checks.csv")
        write_novelty_csv(written[-1], results)
    shown = [*draw_pictures(results), *filter(None, [scenes_picture(run_folder, results)])]
    for picture in shown:
        written.append(run_folder / picture.name)
        written[-1].write_bytes(picture.png)
    written.append(run_folder / "report.html")
    written[-1].write_text(run_page(results, shown), encoding="utf-8")
    return written + write_figures(results, run_folder, figures)


def draw_pictures(results: RunResults) -> list[Shown]:
    """Return every picture that has something to show, as PNG."""
    return [picture.shown(results) for picture in pictures_of(results)]


def read_records(run_folder: Path, seed: int) -> list[StageRecord]:
    """Return the records of one seed; raise `RunError` where they are missing or do not fit."""
    path = run_folder / f"seed-{seed}" / "stages.jsonl"
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
        return [StageRecord.model_validate_json(line) for line in lines]
    except OSError as error:
        raise RunError(f"{path}: cannot be read ({error.strerror}); run the seed again") from error
    except ValidationError as error:
        raise RunError(f"{path}: {explain(error)}; it is of another version, run again") from error


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
