"""What pages, metrics, previews and commands answer over the fleets of the tests, to be compared.

Whoever changes how the ledger is read writes the answers before and after, and looks at each line
that differs:

python -m tests.coordinator.answers write before.json --fleets FOLDER
python -m tests.coordinator.answers write after.json --fleets FOLDER
python -m tests.coordinator.answers compare before.json after.json

The fleets are made in FOLDER by the first of these, and copied from there by all.
"""

from __future__ import annotations

import argparse
import difflib
import json
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from unittest import mock

from typer.testing import CliRunner

from fleetledger.command_line import app
from fleetledger.coordinator.core.state import State
from fleetledger.coordinator.core.state_fold import state_of
from fleetledger.coordinator.ledger.reader import ledger_of
from fleetledger.transport.pages.people import Role
from tests.coordinator.dashboard.chromium.fleets import FLEETS
from tests.coordinator.dashboard.metrics.scraping import NOW_NS
from tests.coordinator.dashboard.served import a_fleet, browser, settled
from tests.coordinator.every_kind.facts import LATER_NS, unpack
from tests.coordinator.reports.rollouts import stories
from tests.coordinator.reports.rollouts.tales import Tale

HOUR_NS = 3600 * 10**9
MOST = 6
"""Devices, models and so on of a fleet that are asked about one by one."""
LISTS = ("fleet", "rollouts", "models", "stages", "contributions", "classes", "ledger", "trust")
LISTS += ("traffic", "problems")
COMMANDS = ("coordinator status", "coordinator stages", "coordinator rounds", "device list")
COMMANDS += ("model list", "rollout list", "class list", "trust show", "ledger tail")
OF_THE_MACHINE = re.compile(
    r"free_disk|csrf|process_|python_|\d+(\.\d+)? (s|min|h) ago|seconds ago"
)
"""In lines that differ by themselves."""

Made = tuple[Path, int]
"""A coordinator's home, and the time at which it is looked at, in nanoseconds since 1970."""


def made_fleets(folder: Path) -> dict[str, Made]:
    """Return the fleets in a folder by name, after making those that are not there."""

    def every_kind(home: Path) -> Made:
        return unpack(home), LATER_NS

    def two_devices(home: Path) -> Made:
        return a_fleet(home), NOW_NS

    def told(story: Callable[[], Tale], home: Path) -> Made:
        tale = story()
        return settled(tale.write(home)), tale.now_ns + HOUR_NS

    makers: dict[str, Callable[[Path], Made]] = {
        fleet.__name__: lambda home, fleet=fleet: (home, fleet(home).now_ns)  # type: ignore[misc]
        for fleet in FLEETS[1:]
    }
    makers |= {"every kind": every_kind, "two devices": two_devices}
    for story in (stories.forgetting, stories.finished, stories.waiting):
        makers[story.__name__] = lambda home, story=story: told(story, home)  # type: ignore[misc]
    return {name: _made(folder / name, make) for name, make in makers.items()}


def _made(place: Path, make: Callable[[Path], Made]) -> Made:
    said = place.with_suffix(".json")
    if not said.exists():
        shutil.rmtree(place, ignore_errors=True)
        home, now_ns = make(place)
        said.write_text(json.dumps([str(home.relative_to(place)), now_ns]), encoding="utf-8")
    home_in_it, now_ns = json.loads(said.read_text(encoding="utf-8"))
    return place / home_in_it, now_ns


def answers(name: str, home: Path, now_ns: int) -> Iterator[tuple[str, str]]:
    """Yield what was asked of a fleet, and the answer."""
    with ledger_of(home) as ledger:
        state = state_of(ledger)
    client = browser(home, now_ns=lambda: now_ns, role=Role.OPERATOR)
    for path in (*_pages(state), "metrics", *_previews(state)):
        answer = client.get(f"/{path}")
        yield f"{name}: GET /{path}", f"{answer.status_code}\n{answer.text}"
    for command in (*COMMANDS, *_commands(state)):
        yield f"{name}: {command} --json", _run(home, f"{command} --json")
    for command in (*COMMANDS, *_commands(state), *_acts(state)):
        yield f"{name}: {command}", _run(home, command)


def _run(home: Path, command: str) -> str:
    """Return the exit code of a command that is answered with no, and what it prints."""
    words = [*command.split(), "--home", str(home)]
    result = CliRunner().invoke(app, words, env={"COLUMNS": "200"}, input="n\n")
    return f"{result.exit_code}\n{result.output}"


def _some(numbers: Iterable[object]) -> list[str]:
    return [str(number) for number in numbers][:MOST]


def _pages(state: State) -> Iterator[str]:
    yield from (f"{page}.json" for page in LISTS)
    yield "contributions.json?state=held"
    for device in _some(state.devices.admitted):
        yield from (f"devices/{device}.json", f"contributions.json?device={device}")
    for version in _some(state.models.by_version):
        yield from (f"models/{version}.json", f"contributions.json?model={version}")
    yield from (f"stages/{stage}.json" for stage in _some(state.stages.by_number))
    yield from (f"rollouts/{rollout}.json" for rollout in _some(state.rollouts.by_number))


def _previews(state: State) -> Iterator[str]:
    yield from ("act/open-stage", "act/close-stage")
    yield from (f"act/push-model?version={version}" for version in _some(state.models.by_version))
    yield from (f"act/rollout-back?rollout={one}" for one in _some(state.rollouts.by_number))


def _commands(state: State) -> Iterator[str]:
    yield from (f"model show {version}" for version in _some(state.models.by_version))
    yield from (f"device show {device}" for device in _some(state.devices.admitted))
    yield from (f"rollout show {rollout}" for rollout in _some(state.rollouts.by_number))


def _acts(state: State) -> Iterator[str]:
    yield from ("model rollback", "model hold")
    yield from (f"model push {version}" for version in _some(state.models.by_version))
    yield from (f"rollout plan {version}" for version in _some(state.models.by_version))


def written(fleets: Path) -> dict[str, str]:
    """Return the answers of all fleets by what was asked; the fleets stay as they are."""
    found: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, (home, now_ns) in made_fleets(fleets).items():
            copied = Path(folder) / name.replace(" ", "-")
            shutil.copytree(home, copied)
            with mock.patch("time.time_ns", return_value=now_ns):
                for asked, answer in answers(name, copied, now_ns):
                    found[asked] = answer.replace(folder, "FOLDER")
    return found


def differences(before: dict[str, str], after: dict[str, str]) -> Iterator[str]:
    """Yield what was asked and the lines that differ, for every answer that is another one."""
    for asked in sorted(before.keys() | after.keys()):
        pair = (before.get(asked, "").splitlines(), after.get(asked, "").splitlines())
        lines = [
            line
            for line in difflib.unified_diff(*pair, lineterm="", n=0)
            if not line.startswith(("---", "+++", "@@")) and not OF_THE_MACHINE.search(line)
        ]
        if lines:
            yield "\n".join([f"## {asked}", *lines])


def main(arguments: list[str]) -> int:
    """Write answers, or compare two files of them; 1 where any differs."""
    parser = argparse.ArgumentParser(prog="python -m tests.coordinator.answers")
    verbs = parser.add_subparsers(dest="verb", required=True)
    write = verbs.add_parser("write")
    write.add_argument("file", type=Path)
    write.add_argument("--fleets", type=Path, required=True)
    compare = verbs.add_parser("compare")
    compare.add_argument("files", type=Path, nargs=2)
    given = parser.parse_args(arguments)
    if given.verb == "write":
        found = written(given.fleets)
        given.file.write_text(json.dumps(found, indent=1), encoding="utf-8")
        print(f"{len(found)} answers in {given.file}")  # noqa: T201
        return 0
    before, after = (json.loads(file.read_text(encoding="utf-8")) for file in given.files)
    found_other = list(differences(before, after))
    print(*found_other, f"{len(found_other)} of {len(before)} answers differ", sep="\n")  # noqa: T201
    return 1 if found_other else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
