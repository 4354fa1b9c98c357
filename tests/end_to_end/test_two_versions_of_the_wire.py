"""Programs that speak different versions of the wire, side by side at a real Mosquitto."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fleetledger.coordinator.core.state_fold import state_of
from fleetledger.coordinator.ledger.reader import ledger_of
from fleetledger.coordinator.topics.models.entries import DeviceEvaluated
from fleetledger.coordinator.topics.stages.entries import StageClosed
from fleetledger.device_agent.home.status_file import read_status
from fleetledger.export.scaling_backbone import scaling_backbone
from fleetledger.runtime.exit_codes import ExitCode
from fleetledger.schemas.models import Preprocessing
from fleetledger.simulator.engines.mqtt.processes import Children
from fleetledger.transport.brokers import MosquittoBroker
from tests.end_to_end.memory_fleet import put_pictures
from tests.end_to_end.process_fleet import ProcessFleet

pytestmark = pytest.mark.broker

CLASSES = ("vertical", "horizontal")
OLD, OWN, ANCIENT = "old", "own", "ancient"
WIRES = {OLD: "SECOND", OWN: "THIRD", ANCIENT: "FIRST"}
PREPROCESSING = """\
mode = "L"
size = [4, 4]
mean = [0.0]
deviation = [1.0]
input_name = "image"
"""
SETTINGS = """\
[stages]
quiet_seconds = 1.0
[method]
name = "stsa"
[method.settings]
map_width = 40
"""
AGENT = """\
import functools
import runpy
from fleetledger.device_agent.program import assembly
from tests import wires
assembly.AgentSurroundings = functools.partial(
    assembly.AgentSurroundings, wire=getattr(wires, sys.argv.pop(1))
)
runpy.run_module("fleetledger.device_agent", run_name="__main__", alter_sys=True)
"""
COORDINATOR = """\
import functools
from fleetledger import command_line
from fleetledger.coordinator import assembly
from tests import wires
assembly.CoordinatorSurroundings = functools.partial(
    assembly.CoordinatorSurroundings, wire=getattr(wires, sys.argv.pop(1))
)
command_line.main()
"""


class MixedFleet(ProcessFleet):
    """Programs that speak the versions that a test chooses."""

    def start_coordinator_of(self, wire: str) -> None:
        command = ("coordinator", "serve", "--home", str(self.home))
        self._start("coordinator", COORDINATOR, wire, *command)

    def start_agent_of(self, device: str, wire: str) -> None:
        self._start(device, AGENT, wire, str(self.folder / device))

    def _start(self, name: str, program: str, *arguments: str) -> None:
        self.children.start(name, [sys.executable, "-c", f"import sys\n{program}", *arguments])

    def wire(self, device: str) -> str:
        """Return what an agent says of the wire; nothing before it said anything."""
        status = read_status(self.folder / device / "status.json")
        return "" if status is None else status.wire


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[MixedFleet]:
    logs = tmp_path / "logs"
    logs.mkdir()
    with MosquittoBroker(tmp_path / "broker", tuple(WIRES)) as broker, Children(logs) as children:
        fleet = MixedFleet(tmp_path, broker, children)
        fleet.set_up_coordinator(SETTINGS)
        described = tmp_path / "pixels.toml"
        described.write_text(PREPROCESSING, encoding="utf-8")
        shape = Preprocessing(
            mode="L", size=(4, 4), mean=(0.0,), deviation=(1.0,), input_name="image"
        )
        (tmp_path / "pixels.onnx").write_bytes(scaling_backbone(shape))
        fleet.operator(
            *("model", "import-backbone", str(tmp_path / "pixels.onnx")),
            *("--preprocessing", str(described)),
        )
        for device in WIRES:
            fleet.set_up_agent(device)
            for name in CLASSES:
                put_pictures(tmp_path / device / "data", name, range(24))
                put_pictures(tmp_path / device / "evaluation", name, range(100, 104))
        yield fleet


def samples(fleet: MixedFleet) -> dict[str, int]:
    with ledger_of(fleet.home) as ledger:
        held = state_of(ledger).contributions.held()
    return {str(name): samples for name, (_, samples) in held.items() if samples}


def test_a_coordinator_leads_its_own_and_the_former_minor_version_and_waits_for_no_other(
    fleet: MixedFleet,
) -> None:
    fleet.start_coordinator_of("THIRD")
    for device, wire in WIRES.items():
        fleet.start_agent_of(device, wire)
    fleet.until(lambda: fleet.wire(OLD).startswith("version 2;"))
    fleet.until(lambda: fleet.wire(OWN).startswith("version 3;"))
    fleet.until(lambda: "it is too old" in fleet.wire(ANCIENT))
    fleet.operator("coordinator", "open-stage", *CLASSES)
    fleet.until(lambda: fleet.entries(StageClosed))
    ((_, closed),) = fleet.entries(StageClosed)
    assert (closed.answered, closed.expected) == (2, 2)
    assert closed.reason.startswith("quorum")
    assert samples(fleet) == {OLD: 48, OWN: 48}
    fleet.until(lambda: {name for name, _ in fleet.entries(DeviceEvaluated)} == {OLD, OWN})

    said = fleet.operator("coordinator", "status", code=ExitCode.NEEDS_A_PERSON)
    assert "ancient is too old: it speaks version 1 of the wire, the coordinator versions 2" in said
    listed = json.loads(fleet.operator("device", "list", "--json"))["devices"]
    assert {row["name"]: row["state"] for row in listed}[ANCIENT] == "too old"
    table = fleet.operator("device", "list")
    assert "wire" in table
    assert {"1", "2", "2-3"} <= set(table.replace("│", " ").split())
    told = fleet.run(
        *("agent", "status", "--home", str(fleet.folder / ANCIENT)), code=ExitCode.NEEDS_A_PERSON
    )
    assert "this agent speaks version 1, its coordinator versions 2 to 3; it is too old" in told
    assert "install the coordinator's release of fleetledger here" in told

    # What the operator does about it: the need is gone, and the device gives what it has.
    fleet.stop(ANCIENT)
    fleet.start_agent_of(ANCIENT, "THIRD")
    fleet.until(lambda: samples(fleet) == {OLD: 48, OWN: 48, ANCIENT: 48})
    fleet.until(lambda: fleet.wire(ANCIENT).startswith("version 3;"))
    assert "too old" not in fleet.operator("coordinator", "status")
    fleet.operator("ledger", "verify")


def test_a_fleet_is_updated_coordinator_first_and_a_device_at_a_time(fleet: MixedFleet) -> None:
    fleet.start_coordinator_of("SECOND")
    for device in (OLD, OWN):
        fleet.start_agent_of(device, "SECOND")
    fleet.operator("device", "retire", ANCIENT)
    fleet.operator("coordinator", "open-stage", *CLASSES)
    fleet.until(lambda: samples(fleet) == {OLD: 48, OWN: 48})
    fleet.stop("coordinator")
    fleet.start_coordinator_of("THIRD")
    fleet.until(lambda: fleet.wire(OLD).endswith("the coordinator versions 2 to 3"))
    fleet.stop(OWN)
    put_pictures(fleet.folder / OWN / "data", "vertical", range(200, 204))
    put_pictures(fleet.folder / OLD / "data", "vertical", range(300, 304))
    fleet.start_agent_of(OWN, "THIRD")
    fleet.until(lambda: samples(fleet) == {OLD: 52, OWN: 52})
    fleet.until(lambda: fleet.wire(OWN).startswith("version 3;"))  # status comes after the ledger
    assert fleet.wire(OLD).startswith("version 2;")
