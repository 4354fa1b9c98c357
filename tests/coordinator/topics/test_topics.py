"""Every topic has the same files, and its part of the state is changed by its functions alone."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import pytest

from fleetledger import coordinator
from fleetledger.coordinator.core.entry import EntryBody
from fleetledger.coordinator.core.state import KINDS, TOPICS, State
from fleetledger.schemas.values import DeviceId
from tests.coordinator.core.round_bench import RoundBench
from tests.coordinator.reports.test_views import story
from tests.coordinator.topics.devices.test_two_machines_with_one_name import doubled, settle
from tests.coordinator.topics.releases.test_releases import ReleasingBench
from tests.coordinator.topics.rounds.test_void_rounds import VoidBench

ROOM = Path(coordinator.__file__).parent
OF_EVERY_TOPIC = {"__init__.py", "entries.py", "rules.py", "state.py"}
FOLDERS = sorted(path.parent.name for path in (ROOM / "topics").glob("*/__init__.py"))
PARTS = {topic.name: "trust" if topic.name == "releases" else topic.name for topic in TOPICS}
"""What the state calls the part of each topic."""
Told = list[tuple[EntryBody, DeviceId | None, int]]


def stories() -> Iterator[Told]:
    yield story().entries
    stopped = VoidBench()
    stopped.lead()
    stopped.stop()
    yield stopped.entries
    trained = RoundBench()
    trained.lead()
    for device in trained.devices:
        trained.answer(device)
    trained.wait(0)
    yield trained.entries
    air, one, _ = doubled()
    settle(air, one.boot)
    yield air.bench.entries
    released = ReleasingBench()
    released.more()
    yield released.entries


def parts(state: State) -> dict[str, str]:
    return {topic: repr(getattr(state, name)) for topic, name in PARTS.items()}


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_topic_has_the_same_files(folder: str) -> None:
    assert OF_EVERY_TOPIC - {path.name for path in (ROOM / "topics" / folder).iterdir()} == set()


def test_the_folders_are_the_topics() -> None:
    assert sorted({topic.name for topic in TOPICS} - {"done"}) == FOLDERS


def test_every_kind_belongs_to_one_topic() -> None:
    kinds = [kind.body for topic in TOPICS for kind in topic.kinds]
    assert len(kinds) == len(set(kinds)) == len(KINDS)


def test_a_topic_follows_kinds_of_topics_before_it_alone() -> None:
    before: set[type[EntryBody]] = set()
    for topic in TOPICS:
        assert {item.body for item in topic.follows} <= before, topic.name
        before |= {kind.body for kind in topic.kinds}


def test_an_entry_changes_the_parts_of_those_topics_alone_that_take_it() -> None:
    for told in stories():
        state = State()
        for body, device, time_ns in told:
            before = parts(state)
            state.apply(body, device, time_ns)
            changed = {name for name, text in parts(state).items() if text != before[name]}
            takes = {
                topic.name
                for topic in TOPICS
                if type(body) in {item.body for item in (*topic.kinds, *topic.follows)}
            }
            assert changed <= takes, body.kind


def test_every_part_counts_where_states_are_compared() -> None:
    assert set(PARTS.values()) <= {item.name for item in fields(State) if item.compare}


def test_the_import_rules_name_every_module_of_the_room() -> None:
    """What no layer names, the order of the shelves would not hold."""
    text = (ROOM.resolve().parent / "pyproject.toml").read_text(encoding="utf-8")
    contract = text.split('name = "Inside the coordinator', 1)[1].split("\n]\n", 1)[0]
    named = set(re.findall(r"(?<=fleetledger\.)coordinator(?:\.\w+)+", contract))
    modules = {
        ".".join(path.relative_to(ROOM.parent).with_suffix("").parts)
        for path in ROOM.rglob("*.py")
        if path.name != "__init__.py"
    }
    unnamed = {
        module
        for module in modules
        if not any(module == name or module.startswith(f"{name}.") for name in named)
    }
    assert unnamed == set()
