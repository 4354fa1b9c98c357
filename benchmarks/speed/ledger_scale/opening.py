"""Opens the ledger of a home as a coordinator does, until it could decide.

python -m benchmarks.speed.ledger_scale.opening HOME
"""

from __future__ import annotations

import sys
from pathlib import Path

from fleetledger.coordinator.program.engine import LedgerEngine
from fleetledger.coordinator.settings import load


def main() -> None:
    """Open it, and close it."""
    home = Path(sys.argv[1])
    LedgerEngine.open(home, load(home).rules).close()


if __name__ == "__main__":
    main()
