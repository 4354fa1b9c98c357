"""Write everything that people look at into a run's folder."""

from __future__ import annotations

from pathlib import Path

from pydantic import ValidationError

from fleetledger.schemas.message import explain
from fleetledger.simulator.errors import RunError
from fleetledger.simulator.metrics.results import RunResults
from fleetledger.simulator.records import StageRecord
from fleetledger.simulator.report.csv_files import (
    write_devices_csv,
    write_novelty_csv,
    write_results_csv,
)
from fleetledger.simulator.report.pages.renderer import Shown
from fleetledger.simulator.report.pictures.gallery import pictures_of
from fleetledger.simulator.report.pictures.scenes import scenes_picture
from fleetledger.simulator.report.run_page import run_page
from fleetledger.simulator.report.tables.novelty import has_novelty_checks


def write_report(run_folder: Path, results: RunResults) -> list[Path]:
    """Write results.json, the CSV files, the pictures and report.html; return their paths.

    `novelty_checks.csv` is there where devices looked; `devices.csv` is made from the records in
    `seed-<n>/stages.jsonl`, `scenes.png` from `scenes.npz` beside them. The numbers come first, so
    that they are there whatever happens to a picture. Raises `RunError` where records are missing,
    `MetricsError` where scenes are.
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
    return written


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
