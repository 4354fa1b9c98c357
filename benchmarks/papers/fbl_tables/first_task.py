"""The network that knows the first task of a footing: trained once a seed, and begun with by all.

The released program begins with stored models of the first task as well. Here one device has all
of the task's pictures, and sees them as often as the footing says.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.papers.fbl_tables.forms import FOOTINGS, Files, first_changes
from benchmarks.papers.fbl_tables.measuring import measured
from benchmarks.run_folders import run_case
from fleetledger.coordinator.ledger.blobs import Blobs, BlobStore
from fleetledger.coordinator.ledger.reader import LedgerReader
from fleetledger.coordinator.paths import blob_folder, ledger_path
from fleetledger.coordinator.topics.rounds.entries import WeightsAveraged
from fleetledger.simulator.run.durable import replace_file
from fleetledger.simulator.run.folder import RunFolder


def train_first(footing: str, seed: int, files: Files) -> dict[str, Any]:
    """Train the first task where nobody has yet; return what was measured of it.

    The weights come to lie where `files` says. Raises `SimulatorError` where training does.
    """
    weights = files.first_weights(footing, seed)
    run = weights.with_suffix("")
    run.parent.mkdir(parents=True, exist_ok=True)
    changes = first_changes(footing, seed, files)
    results = run_case(FOOTINGS[footing].scenario, changes, run, report=False)
    if not weights.exists():
        replace_file(weights, _last_weights(RunFolder(run).seed(seed).root / "coordinator"))
    return measured(results, run)


def _last_weights(home: Path) -> bytes:
    with LedgerReader.open_read_only(ledger_path(home)) as ledger:
        *_, last = ledger.find(WeightsAveraged)
        averaged = WeightsAveraged.model_validate(last.body)
        return Blobs(ledger, BlobStore(blob_folder(home))).get(averaged.weights.digest)
