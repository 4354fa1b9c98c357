"""The walks of docs/architecture.md are what a fleet does, in the order in which it does it."""

from __future__ import annotations

import re
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import pytest

from fleetledger.coordinator.topics.models.entries import DeviceEvaluated
from fleetledger.transport.memory import InMemoryBroker
from tests.chaos.runs import fast_folder
from tests.chaos.trials import Trials
from tests.coordinator.dashboard.served import browser
from tests.end_to_end.memory_fleet import MemoryFleet, put_pictures
from tests.rooms import ROOT

PAGE = ROOT / "docs" / "architecture.md"
MOST_FILES = 8
OF_ONE_THAT_IS_ROLLED_BACK = 3
"""The number of chaos's fleet whose candidate fails at the gates of the first group."""

Step = tuple[str, str]
"""File, from the top of the repository, and function."""


def walk(title: str) -> list[Step]:
    section = PAGE.read_text(encoding="utf-8").partition(f"### {title}")[2].partition("\n#")[0]
    return re.findall(r"^\| `([\w/]+\.py)` \| `(\w+)` \|", section, re.MULTILINE)


TITLES = ("A payload's way", "A verdict's way", "A number's way")


class Seen:
    """Which of some steps were taken, each time one is, in all threads."""

    def __init__(self, steps: list[Step]) -> None:
        self.taken: list[Step] = []
        self._functions = {function for _, function in steps}
        self._steps = {(str((ROOT / file).resolve()), name): (file, name) for file, name in steps}

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event != "call" or code.co_name not in self._functions:
            return
        step = self._steps.get((str(Path(code.co_filename).resolve()), code.co_name))
        if step is not None:
            self.taken.append(step)


@contextmanager
def watched(*titles: str) -> Iterator[Seen]:
    seen = Seen([step for title in titles for step in walk(title)])
    threading.setprofile(seen)
    sys.setprofile(seen)
    try:
        yield seen
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


def left(steps: list[Step], taken: list[Step]) -> list[Step]:
    """Return the steps that were not taken one after the other."""
    steps = list(steps)
    for step in taken:
        if steps and step == steps[0]:
            steps.pop(0)
    return steps


@pytest.mark.parametrize("title", TITLES)
def test_a_walk_leads_through_eight_files_at_most(title: str) -> None:
    files = {file for file, _ in walk(title)}
    assert 1 < len(files) <= MOST_FILES


def test_a_payload_and_a_number_go_their_way(tmp_path: Path) -> None:
    with watched(TITLES[0], TITLES[2]) as seen:
        fleet = MemoryFleet(tmp_path, InMemoryBroker(), map_width=60, form="exact")
        device = fleet.add("one")
        for name in ("vertical", "horizontal"):
            put_pictures(device.data, name, range(20))
            put_pictures(device.evaluation, name, range(100, 105))
        try:
            fleet.begin("vertical", "horizontal")
            fleet.until(lambda: fleet.entries(DeviceEvaluated))
            page = browser(fleet.coordinator.home, now_ns=time.time_ns).get("/")
        finally:
            fleet.close()
    assert page.status_code == 200
    for title in (TITLES[0], TITLES[2]):
        assert not left(walk(title), seen.taken)


def test_a_verdict_goes_its_way() -> None:
    with fast_folder() as folder, watched(TITLES[1]) as seen:
        _, end = Trials(folder, rollouts=True).prepared(OF_ONE_THAT_IS_ROLLED_BACK)
    assert end.rollouts[1].stage == "rolled_back"
    assert not left(walk(TITLES[1]), seen.taken)
