"""Fails unless every test marked `broker` ran: `broker_tests_ran.py JUNIT_XML`."""

import subprocess
import sys
from xml.etree import ElementTree


def marked() -> set[str]:
    """Return the tests marked `broker`, each as `dotted.module::name`."""
    # One -q prints one test per line; two, of which pyproject.toml gives the first, only counts.
    options = ["-o", "addopts=", "-q", "--collect-only", "-m", "broker"]
    collect = [sys.executable, "-m", "pytest", *options]
    listing = subprocess.run(collect, capture_output=True, text=True, check=True).stdout  # noqa: S603 - our own words
    found = set()
    for line in listing.splitlines():
        module, separator, name = line.partition(".py::")
        if separator:
            found.add(f"{module.replace('/', '.')}::{name}")
    return found


def ran(report: str) -> set[str]:
    """Return the tests in the JUnit file `report` that were not skipped."""
    cases = ElementTree.parse(report).iter("testcase")  # noqa: S314 - our own pytest wrote it
    return {
        f"{case.get('classname')}::{case.get('name')}"
        for case in cases
        if case.find("skipped") is None
    }


def main() -> None:
    """Compare and tell."""
    wanted = marked()
    if not wanted:
        sys.exit("no test is marked `broker`; the suite must try a real Mosquitto")
    missing = sorted(wanted - ran(sys.argv[1]))
    if missing:
        sys.exit("these tests need the broker and did not run:\n" + "\n".join(missing))
    sys.stdout.write(f"all {len(wanted)} tests that need the broker ran\n")


if __name__ == "__main__":
    main()
