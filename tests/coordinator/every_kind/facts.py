"""What is to be seen of the ledger that lies here, through the command line and by plain SQL.

`facts.json` holds it as the program saw it that made the ledger. Where a sentence is worded anew on
purpose, write the file anew and look at what differs:

python -m tests.coordinator.every_kind.facts
"""

from __future__ import annotations

import json
import shutil
import sqlite3
import tarfile
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from fleetledger.command_line import app
from fleetledger.runtime.command_report import OUTPUT_VARIABLE
from fleetledger.schemas.assignments import Assignment
from fleetledger.schemas.models import DesiredModel
from fleetledger.schemas.presence import Welcome
from fleetledger.transport.clock import Clock
from fleetledger.transport.memory import InMemoryBroker
from tests.coordinator.core.round_bench import ABLE
from tests.coordinator.shell_harness import MemoryCoordinator, ScriptedDevice

PACKED = Path(__file__).parent / "home.tar.xz"
KINDS = (Assignment.kind, DesiredModel.kind)
STEPS = 20
LATER_NS = 1_900_000_000 * 10**9
FACTS = Path(__file__).parent / "facts.json"
NOT_IN_IT: frozenset[str] = frozenset(
    {
        "answers.pruned",
        "cohort.continued",
        "cohort.ended",
        "cohort.formed",
        "cohort.joined",
        "cohort.opening",
        "cohort.pruned",
        "cohort.revealed",
        "cohort.silent",
        "cohort.summed",
        "contributions.earlier_settled",
        "contributions.counted_in",
        "contributions.set_aside",
        "device.pinned",
        "device.retired",
        "device.tagged",
        "lineage.variants",
        "model.compared",
        "model.imported",
        "model.withheld",
        "rollout.aborted",
        "rollout.approved",
        "rollout.finished",
        "rollout.group_opened",
        "rollout.measured",
        "rollout.paused",
        "rollout.planned",
        "rollout.resumed",
        "rollout.rolled_back",
        "rollout.started",
        "rollout.unreached",
    }
)
"""Kinds of entry that this ledger has not, which tests of their own have."""


def unpack(folder: Path) -> Path:
    """Return the home of a coordinator that holds the ledger."""
    with tarfile.open(PACKED) as archive:
        archive.extractall(folder, filter="data")
    return folder / "home"


def run(home: Path, *words: str) -> str:
    """Run `fleetledger ledger`, which succeeds; return what it says."""
    words = ("ledger", *words, "--home", str(home))
    form = {OUTPUT_VARIABLE: "table"}
    done = CliRunner().invoke(app, words, env=form, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


def read(home: Path, query: str) -> list[tuple[Any, ...]]:
    """Ask the ledger's database."""
    with closing(sqlite3.connect(home / "ledger" / "ledger.db")) as db:
        return db.execute(query).fetchall()


def told(home: Path) -> dict[str, dict[str, Any]]:
    """Start a coordinator on a ledger; return what it tells two devices that connect.

    That is what its state comes to. The ledger gets entries by it.
    """
    shutil.rmtree(home / "keys", ignore_errors=True)  # there is no private half; it makes new ones
    broker, found = InMemoryBroker(), {}
    coordinator = MemoryCoordinator(home, broker, clock=Clock(lambda: 0.0, lambda: LATER_NS))
    try:
        for name in ("dev-1", "dev-2"):
            device = ScriptedDevice(name, broker, coordinator)
            device.born(ABLE)
            device.wait_for(Welcome)
            for _ in range(STEPS):
                coordinator.shell.step(0)
            device._drain()
            bodies = {item.header.kind: item.header.body for item in device.received}
            found[name] = {kind: bodies[kind] for kind in KINDS if kind in bodies}
            device.close()
    finally:
        coordinator.close()
    return found


def facts(home: Path) -> dict[str, Any]:
    """Return all that is compared."""
    ((size, root),) = read(
        home, "SELECT size, hex(root) FROM checkpoint ORDER BY size DESC LIMIT 1"
    )
    kinds = read(home, "SELECT kind, count(*) FROM entry GROUP BY kind ORDER BY kind")
    shown = json.loads(run(home, "tail", "-n", str(size), "--json"))
    return {
        "size": size,
        "root": root.lower(),
        "kinds": dict(kinds),
        "sentences": [f"{one['index']}\t{one['time']}\t{one['what']}" for one in shown["entries"]],
        "replayed": run(home, "replay", "--all").splitlines(),
        "told": told(home),
    }


def main() -> None:
    """Write the file."""
    with tempfile.TemporaryDirectory() as folder:
        found = facts(unpack(Path(folder)))
    FACTS.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
