"""Run what `make quick` tests: `python -m tests.quick [--since REVISION] [--list]`."""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path

from tests.quick.budget import not_run
from tests.quick.choosing import changed_files, importers, near

ROOT = Path(__file__).parents[2]
ALWAYS = (
    "tests/schemas",
    "tests/coordinator/core",
    "tests/coordinator/topics",
    "tests/device_agent/core",
)
MOST_FILES = 40
"""More would not be done in time, and collecting them alone takes seconds."""
SECONDS = 45.0
"""After which no test begins."""


def main() -> int:
    """Choose, tell and run; return pytest's exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.quick")
    parser.add_argument("--since", default="", help="the revision that changes are counted from")
    parser.add_argument("--seconds", type=float, default=SECONDS)
    parser.add_argument("--workers", default="auto")
    parser.add_argument("--list", action="store_true", help="only print the test files chosen")
    given = parser.parse_args()
    until = time.time() + given.seconds
    changed = changed_files(ROOT, given.since)
    paths = [item.path for item in near(ROOT, changed, importers(ROOT))]
    paths = [path for path in paths if not path.startswith(tuple(f"{at}/" for at in ALWAYS))]
    chosen, left = paths[:MOST_FILES], paths[MOST_FILES:]
    sys.stdout.write(
        f"{len(changed)} files changed; near to them: {' '.join(chosen) or 'no test'}\n"
    )
    sys.stdout.flush()
    status = 0
    if not given.list:
        options = ["-n", given.workers, "-p", "tests.quick.budget", f"--until={until}"]
        command = [sys.executable, "-m", "pytest", *options, "-m", "not slow", *ALWAYS, *chosen]
        status = subprocess.run(command, cwd=ROOT, check=False).returncode
    if left:
        sys.stdout.write(not_run(left) + "\n")
    return status


if __name__ == "__main__":
    sys.exit(main())
