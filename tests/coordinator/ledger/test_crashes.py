"""What the writer has reported survives SIGKILL at any moment, and the ledger verifies."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path

from fleetledger.coordinator.ledger.blobs import Blobs
from fleetledger.coordinator.ledger.reader import LedgerReader
from fleetledger.coordinator.ledger.verify import verify
from tests.coordinator.ledger.support import open_store

WRITER = """
import sys
from pathlib import Path
from fleetledger.coordinator.ledger.store import Ledger
from fleetledger.schemas.values import Digest
from tests.coordinator.ledger.support import draft

with Ledger.open(Path(sys.argv[1]) / "ledger.db") as ledger:
    while True:
        content = str(ledger.size).encode()
        blob = Digest.of(content)
        entries = ledger.append(
            [draft(ledger.size + n, blobs=(blob,)) for n in range(7)], {blob: content}
        )
        print(entries[-1].index, ledger.root, flush=True)
"""


def write_and_kill(folder: Path, seconds: float) -> tuple[int, str]:
    """Let a process append until it is killed; return the last index and root it reported."""
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, str(folder)], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline()]
        time.sleep(seconds)
        process.kill()
        lines += process.stdout.read().splitlines()
    # The kill may have torn the last line.
    whole = [line.split() for line in lines if len(line.strip().split(" ")[-1]) == 64]
    return int(whole[-1][0]), whole[-1][1]


def test_nothing_reported_is_lost_when_the_writer_is_killed(tmp_path: Path) -> None:
    rng = random.Random(5)
    for _ in range(5):
        index, root = write_and_kill(tmp_path, rng.uniform(0.02, 0.15))
        with LedgerReader.open_read_only(tmp_path / "ledger.db") as reader:
            assert reader.size > index
            roots = {checkpoint.size: checkpoint.root for checkpoint in reader.checkpoints()}
            assert roots[index + 1] == root
            report = verify(reader, Blobs(reader, open_store(tmp_path)))
        assert report.ok, str(report)
        assert report.entries % 7 == 0
