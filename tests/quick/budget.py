"""A pytest plugin: tests that would begin after `--until` do not run, and their files are told."""

from __future__ import annotations

import time
from collections.abc import Collection

import pytest

NO_TIME_LEFT = "no time left"
MOST_NAMES = 100


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--until", type=float, metavar="EPOCH_SECONDS", help="when no test begins")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    if time.time() >= item.config.getoption("--until"):
        pytest.skip(NO_TIME_LEFT)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    skipped = terminalreporter.stats.get("skipped", [])
    late = {
        report.nodeid.split("::")[0] for report in skipped if NO_TIME_LEFT in str(report.longrepr)
    }
    if late:
        terminalreporter.write_line(not_run(late))


def not_run(paths: Collection[str]) -> str:
    """Say which test files did not run, by folder: their names, or how many where they are many."""
    folders: dict[str, list[str]] = {}
    for path in sorted(paths):
        folder, _, name = path.rpartition("/")
        folders.setdefault(folder, []).append(name.removesuffix(".py"))
    lines = [
        f"  {folder}/: {', '.join(names) if len(paths) <= MOST_NAMES else f'{len(names)} files'}"
        for folder, names in folders.items()
    ]
    return "\n".join(["not run (`make test` runs them):", *lines])
