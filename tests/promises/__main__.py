"""Runs the troubled fleet of promise 1 for many seeds, and tells each that breaks it.

python -m tests.promises [--seeds 20] [--contributions 10000]
"""

from __future__ import annotations

import argparse
import logging
import sys
import tempfile
import time
from pathlib import Path

from tests.promises.troubled_fleet import troubled, undisturbed


def main() -> int:
    """Run the command and return its exit code."""
    arguments = argparse.ArgumentParser(prog="python -m tests.promises", description=__doc__)
    arguments.add_argument("--seeds", type=int, default=20)
    arguments.add_argument("--contributions", type=int, default=10_000)
    options = arguments.parse_args()
    logging.disable(logging.WARNING)
    broken = 0
    with tempfile.TemporaryDirectory() as scratch:
        story = undisturbed(Path(scratch) / "undisturbed", options.contributions)
        for seed in range(options.seeds):
            began = time.process_time()
            try:
                troubled(story, Path(scratch) / f"seed-{seed}", seed)
                outcome = f"{story.size} contributions count once each"
            except AssertionError as error:
                broken, outcome = broken + 1, f"BROKEN: {error}"
            spent = time.process_time() - began
            sys.stdout.write(f"seed {seed}: {outcome}, {spent:.1f} s of processor\n")
            sys.stdout.flush()
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
