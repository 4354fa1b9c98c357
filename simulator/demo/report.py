"""What a run leaves behind: verification, `metrics.json`, the picture, the table and the paths."""

from __future__ import annotations

import json
from typing import Any

from rich.console import Console

from coordinator.ledger.blobs import Blobs, BlobStore
from coordinator.ledger.reader import LedgerReader
from coordinator.ledger.verify import verify
from coordinator.paths import blob_folder, ledger_path
from coordinator.reading.tables import TABLES
from simulator.demo.fleet import Run
from simulator.demo.metrics_file import RunFacts, metrics
from simulator.demo.plot import draw_accuracy
from simulator.demo.table import stage_table


def verify_ledger(run: Run) -> dict[str, Any]:
    """Check every entry, checkpoint, blob and table of the run's ledger."""
    home = run.folder.coordinator
    with LedgerReader.open_read_only(ledger_path(home), TABLES) as ledger:
        report = verify(ledger, Blobs(ledger, BlobStore(str(blob_folder(home)))))
    return {
        "path": str(ledger_path(home)),
        "blobs": str(blob_folder(home)),
        "entries": report.entries,
        "root": report.root,
        "verified": report.ok,
        "report": str(report),
    }


def write_report(run: Run, facts: RunFacts) -> dict[str, Any]:
    """Write `metrics.json` and the picture; return the content of the former."""
    content = metrics(facts)
    text = json.dumps(content, indent=2, allow_nan=False)
    run.folder.metrics.write_text(text + "\n", encoding="utf-8")
    settings = facts.settings
    subtitle = (
        f"{settings.agents} agents, Dirichlet {settings.beta:g}, M = {settings.map_width}, "
        f"{settings.form} statistics, broker {facts.broker['kind']}"
    )
    title = f"A fleet learns {run.material.title} stage by stage, and keeps the old ones"
    draw_accuracy(run.folder.plot, facts.results, facts.pooled, (title, subtitle))
    return content


def print_report(console: Console, run: Run, facts: RunFacts) -> None:
    """Print the table, the yardstick, the verification and where everything lies."""
    console.print(stage_table(facts.results, facts.pooled))
    for name, text in _lines(run, facts):
        console.print(f"{name:>12}  {text}", markup=False, highlight=False, soft_wrap=True)


def _lines(run: Run, facts: RunFacts) -> list[tuple[str, str]]:
    devices, pooled = 100 * facts.results[-1].accuracy, 100 * facts.pooled[-1]
    verified = "verified" if facts.ledger["verified"] else "DOES NOT VERIFY"
    return [
        (
            "accuracy",
            f"{devices:.2f} % on the devices, {pooled:.2f} % float64 ridge regression on the "
            f"pooled images: {devices - pooled:+.2f} points",
        ),
        ("took", f"{facts.seconds:.1f} s"),
        ("broker", facts.broker["description"]),
        ("ledger", f"{verified}: {facts.ledger['report']}"),
        ("", str(facts.ledger["path"])),
        (
            "models",
            f"{facts.ledger['blobs']} (fleetledger model list --home {run.folder.coordinator})",
        ),
        ("agents", str(run.folder.agents)),
        ("logs", str(run.folder.logs)),
        ("picture", str(run.folder.plot)),
        ("numbers", str(run.folder.metrics)),
        *(("problem", text) for text in facts.problems),
    ]
