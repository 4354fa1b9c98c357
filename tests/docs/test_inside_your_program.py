"""The page about embedding: its programs run at a real Mosquitto, its table has every action."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import fleetledger as fl
from fleetledger.coordinator.actions.calls import call_name
from fleetledger.coordinator.actions.registry import ACTIONS
from fleetledger.export.scaling_backbone import scaling_backbone
from fleetledger.schemas.models import Preprocessing
from fleetledger.simulator.engines.mqtt.processes import Children
from fleetledger.transport.brokers import MosquittoBroker
from tests.end_to_end.process_fleet import PATIENCE, ProcessFleet
from tests.end_to_end.test_a_cloned_card_over_a_broker import PREPROCESSING
from tests.rooms import ROOT

PAGE = ROOT / "docs" / "inside-your-program.md"
EXAMPLES = ROOT / "docs" / "examples"
SETTINGS = """\
[stages]
quiet_seconds = 1
[method]
name = "stsa"
[method.settings]
map_width = 40
"""


def row(name: str) -> str:
    """Return the line of an action in the page's table."""
    call = getattr(fl.Coordinator, call_name(ACTIONS[name]))
    parameters = [
        f"*{one.name}"
        if one.kind is one.VAR_POSITIONAL
        else one.name + "=" * (one.default is not one.empty)
        for one in list(inspect.signature(call).parameters.values())[1:]
    ]
    line = ACTIONS[name].command_line({}).removeprefix("fleetledger ")
    return f"| `{call_name(ACTIONS[name])}({', '.join(parameters)})` | `{line}` |"


def test_the_page_has_every_action_as_a_call() -> None:
    page = PAGE.read_text(encoding="utf-8")
    table = page.partition("| call | on the command line |\n| --- | --- |\n")[2].partition("\n\n")[
        0
    ]
    assert table.splitlines() == [row(name) for name in ACTIONS]


def test_what_the_page_calls_is_there() -> None:
    page = PAGE.read_text(encoding="utf-8")
    for owner, face in (("agent", fl.Agent), ("fleet", fl.Coordinator)):
        for name in set(re.findall(rf"\b{owner}\.(\w+)", page)) - {"md", "toml", "ledger"}:
            assert hasattr(face, name), f"{owner}.{name}"


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[ProcessFleet]:
    """A coordinator that runs at a broker, and the home of a camera that has no samples yet."""
    logs = tmp_path / "logs"
    logs.mkdir()
    with (
        MosquittoBroker(tmp_path / "broker", ("camera",)) as broker,
        Children(logs) as children,
    ):
        made = ProcessFleet(tmp_path, broker, children)
        made.set_up_coordinator(SETTINGS)
        described = tmp_path / "pixels.toml"
        described.write_text(PREPROCESSING, encoding="utf-8")
        shape = Preprocessing(
            mode="L", size=(4, 4), mean=(0.0,), deviation=(1.0,), input_name="image"
        )
        (tmp_path / "pixels.onnx").write_bytes(scaling_backbone(shape))
        backbone = ("import-backbone", str(tmp_path / "pixels.onnx"))
        made.operator("model", *backbone, "--preprocessing", str(described))
        made.set_up_agent("camera")
        made.start_coordinator()
        yield made


def put_frames(folder: Path) -> None:
    """Write what the camera will show: apples as upright bars, pears as level ones, with noise."""
    noise = np.random.default_rng(7)
    for name, bars in (("apple", np.s_[:, ::2]), ("pear", np.s_[::2, :])):
        (folder / name).mkdir(parents=True)
        for number in range(12):
            frame = noise.integers(0, 60, (4, 4, 3)).astype(np.uint8)
            frame[bars] += 180
            Image.fromarray(frame).save(folder / name / f"{number:02}.png")


@pytest.mark.broker
def test_an_application_and_a_script_make_a_fleet_learn(
    fleet: ProcessFleet, tmp_path: Path
) -> None:
    put_frames(tmp_path / "frames")
    camera = subprocess.Popen(
        [sys.executable, EXAMPLES / "camera_loop.py", fleet.folder / "camera", tmp_path / "frames"],
        stdout=subprocess.PIPE,
        text=True,
    )
    script = subprocess.run(
        [sys.executable, EXAMPLES / "lead_a_fleet.py", fleet.home, "apple", "pear"],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    assert script.returncode == 0, script.stderr + fleet.children.tails()
    assert "model 1 runs on camera" in script.stdout
    said = camera.communicate(timeout=PATIENCE)[0].splitlines()
    assert camera.returncode == 0
    assert said[0] == "given: 24, new: 24"
    right = [line.partition(":")[0] == line.split()[1] for line in said[1:]]
    assert len(right) == 24
    assert sum(right) >= 22
    by_script = [
        entry for entry in fl.Coordinator(fleet.home).ledger if "lead-a-fleet" in entry.actor
    ]
    assert "stage.opened" in {entry.kind for entry in by_script}
