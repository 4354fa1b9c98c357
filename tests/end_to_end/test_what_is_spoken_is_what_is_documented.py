"""Everything that a fleet says is in the catalogue: its topic, retained or not, how it is sent."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from fleetledger.coordinator.topics.models.entries import DeviceEvaluated
from fleetledger.schemas.catalogue import CATALOGUE
from fleetledger.schemas.envelope import decode
from fleetledger.schemas.topics import ROOT, qos_of
from fleetledger.transport.interface import OutgoingMessage
from fleetledger.transport.memory import InMemoryBroker
from tests.end_to_end.memory_fleet import MemoryFleet, put_pictures

BY_KIND = {entry.kind: entry for entry in CATALOGUE}
SETTINGS = {"map_width": 60, "form": "exact"}


class ListeningBroker(InMemoryBroker):
    """Remembers everything that is published."""

    def __init__(self) -> None:
        super().__init__()
        self.heard: list[OutgoingMessage] = []

    def route(self, message: OutgoingMessage, user: str | None) -> bool:
        self.heard.append(message)
        return super().route(message, user)


def branch_of(topic: str) -> str:
    """Return a topic as the catalogue writes it."""
    levels = topic.removeprefix(f"{ROOT}/").split("/")[1:]
    last = len(levels) - 1
    named = ["<device>" if 0 < place < last else level for place, level in enumerate(levels)]
    return "/".join(named)


def listened_to(folder: Path) -> list[OutgoingMessage]:
    """Return all that a fleet says which learns two classes, and notices a third."""
    broker = ListeningBroker()
    with closing(MemoryFleet(folder, broker, **SETTINGS)) as fleet:
        one, two = fleet.add("one"), fleet.add("two")
        for device, kind in ((one, "vertical"), (two, "horizontal")):
            put_pictures(device.data, kind, range(20))
            put_pictures(device.evaluation, kind, range(100, 110))
        put_pictures(two.data, "spot", range(5))
        fleet.begin("vertical", "horizontal")
        fleet.until(lambda: len(fleet.entries(DeviceEvaluated)) >= 2)
    return broker.heard


def test_a_fleet_says_what_the_catalogue_says(tmp_path: Path) -> None:
    spoken = set()
    for message in listened_to(tmp_path):
        if not message.payload:  # clears what was retained
            assert message.retain
            continue
        entry = BY_KIND[decode(message.payload).header.kind]
        assert branch_of(message.topic) in entry.branches, entry.kind
        assert message.retain == entry.retained, entry.kind
        assert message.qos == qos_of(message.topic.rpartition("/")[2]), entry.kind
        assert bool(decode(message.payload).attachment) <= bool(entry.attachment), entry.kind
        spoken.add(entry.kind)
    assert spoken >= {
        "birth", "death", "heartbeat", "contribution", "evaluation", "waiting-classes",
        "model.status", "coordinator.birth", "coordinator.death", "welcome", "receipt",
        "assignment", "model.desired", "block.request", "block.data",
    }  # fmt: skip
