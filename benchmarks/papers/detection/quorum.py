"""How often doubts of half of a fleet come together while nothing is new.

    python -m benchmarks.papers.detection.quorum

Each device has quiet images of its own, in an order of chance, and reports by the rule. A trial
takes 1,000 images of some devices at moments of chance; it is false where, within a window before
some report, as many devices as the quorum needs have reported. The coordinator's window is the time
of a tenth of `quiet_images`; without one, every report of the trial counts.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks import RESULTS_FOLDER
from benchmarks.papers.detection.sequences import wilson
from fleetledger.learning.numerics.conformal import first_number
from fleetledger.learning.numerics.sequential_detection import (
    ChangeEvidence,
    gathered,
    with_reference,
)

RESULTS = RESULTS_FOLDER / "detection_quorum.json"
QUIET_IMAGES = 1000
IMAGES = 20_000
FLEETS = ((20, 10), (10, 5), (4, 2))
"""Devices, and how many of them are half."""


def reports_of(device: int) -> npt.NDArray[np.int64]:
    """Return after which quiet images a device reports."""
    values = np.random.default_rng(device).beta(0.6, 1.4, IMAGES + 200)
    evidence = ChangeEvidence(compared=first_number(f"device-{device}/model"))
    evidence = with_reference(evidence, values[:200].tolist())
    _, alarms = gathered(evidence, values[200:].tolist(), QUIET_IMAGES)
    return np.array([alarm.after for alarm in alarms])


def most_together(reports: list[npt.NDArray[np.int64]], window: int) -> int:
    """Return how many devices have reported within a window before some report, at most."""
    ends = np.concatenate(reports)
    if not len(ends):
        return 0
    near = [
        ((one <= ends[:, None]) & (one >= ends[:, None] - window)).any(axis=1) for one in reports
    ]
    return int(np.sum(near, axis=0).max())


def trials(
    streams: list[npt.NDArray[np.int64]], devices: int, needed: int, trials: int, window: int
) -> dict[str, Any]:
    """Return in how many trials the quorum is reached."""
    chance, false = np.random.default_rng([devices, window]), 0
    for _ in range(trials):
        shown = []
        for stream in chance.choice(len(streams), devices, replace=False):
            begin = chance.integers(IMAGES - 1000)
            shown.append(
                streams[stream][(streams[stream] > begin) & (streams[stream] <= begin + 1000)]
                - begin
            )
        false += most_together(shown, window) >= needed
    low, high = wilson(false, trials)
    return {
        "devices": devices,
        "needed": needed,
        "window": window,
        "trials": trials,
        "false": false,
        "interval": [round(low, 5), round(high, 5)],
    }


def main() -> int:
    """Run the trials, write and print what came of them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--devices", type=int, default=60, help="streams that are simulated")
    parser.add_argument("--trials", type=int, default=20_000)
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    streams = [reports_of(device) for device in range(options.devices)]
    reports = sum(map(len, streams))
    rows = [
        trials(streams, devices, needed, options.trials, window)
        for devices, needed in FLEETS
        for window in (QUIET_IMAGES // 10, QUIET_IMAGES)
    ]
    found = {
        "quiet_images": QUIET_IMAGES,
        "images": IMAGES * options.devices,
        "reports_per_1000": round(1000 * reports / IMAGES / options.devices, 3),
        "rows": rows,
    }
    options.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
