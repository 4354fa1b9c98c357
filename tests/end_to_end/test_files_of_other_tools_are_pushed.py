"""Files of other makers' tools go through a broker to a device, which answers as ONNX Runtime.

A coordinator and an agent run as processes; the model of each file is imported, pushed, tested and
switched to by that agent, and `agent predict` is compared with the file as it came.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from fleetledger.schemas.models import Preprocessing
from fleetledger.simulator.engines.mqtt.homes import write_password
from fleetledger.simulator.engines.mqtt.processes import Children
from fleetledger.transport.brokers import MosquittoBroker
from tests.end_to_end.process_fleet import ProcessFleet
from tests.export.other_tools import NAMES, REFUSED, ROUNDED, TOLERANCE, file_of, plain, taken

pytestmark = [pytest.mark.broker, pytest.mark.timeout(600)]
DEVICE = "dev-a"
PICTURES = 3
BY_DAY = frozenset({"paddle_flat", "ort_dynamic_torch_dynamo_logits", "skl_logistic_rows"})
"""A batch of -1, one by one, and a row of another operator domain; the others at night."""
PUSHED = [name for name in NAMES if name not in REFUSED or not REFUSED[name].is_final]


class FleetOfModels(ProcessFleet):
    """A coordinator and one device that only run models."""

    name = "shelf"

    def start_all(self) -> None:
        write_password(self.home, self.broker, "coordinator")
        access = self.access(self.broker.port)
        self.operator(
            "coordinator", "init", "--trial", "--no-learning", "--fleet", self.name, *access
        )
        write_password(self.folder / DEVICE, self.broker, DEVICE)
        words = ("--device", DEVICE, "--fleet", self.name, "--no-data", *access)
        self.agent("init", DEVICE, *words)
        settings = self.folder / DEVICE / "agent.toml"
        text, found = re.subn(
            r"(?m)^(# )?domains = .*$",
            'domains = ["ai.onnx.ml", "com.microsoft"]',
            settings.read_text(encoding="utf-8"),
        )
        assert found == 1
        settings.write_text(text, encoding="utf-8")
        self.operator("coordinator", "admit", DEVICE)
        self.start_coordinator()
        self.start_agent(DEVICE)
        self.until((self.folder / DEVICE / "status.json").exists)

    def import_file(self, name: str) -> int:
        """Import a file by the settings that its refusals ask for; return the version."""
        wanted, model = taken(name).wanted, self.folder / f"{name}.onnx"
        model.write_bytes(file_of(name))
        names, described = model.with_suffix(".txt"), model.with_suffix(".json")
        names.write_text("\n".join(wanted.class_names) + "\n", encoding="utf-8")
        described.write_text(wanted.preprocessing.model_dump_json(), encoding="utf-8")
        options = ["--classes", str(names), "--preprocessing", str(described)]
        options += ["--output", wanted.output] if wanted.output else []
        options += ["--gives", wanted.gives] if wanted.gives else []
        for domain in sorted(wanted.domains - {""}):
            options += ["--domain", domain]
        self.operator("model", "import", str(model), *options)
        listed = json.loads(self.operator("model", "list", "--json"))
        return max(found["version"] for found in listed["models"])

    def answers(self, pictures: list[Path], classes: int) -> np.ndarray:
        """Return what `agent predict` says, in the order of the classes' names."""
        words = ("--json", "--most", str(classes))
        said = json.loads(self.agent("predict", DEVICE, *map(str, pictures), *words))
        rows = [
            dict(zip(found["names"], found["scores"], strict=True)) for found in said["predictions"]
        ]
        return np.array([[row[name] for name in sorted(row)] for row in rows])


@pytest.fixture(scope="module")
def fleet(
    tmp_path_factory: pytest.TempPathFactory, mosquitto: MosquittoBroker
) -> Iterator[FleetOfModels]:
    folder = tmp_path_factory.mktemp("shelf")
    (folder / "logs").mkdir()
    with Children(folder / "logs") as children:
        made = FleetOfModels(folder, mosquitto, children)
        made.start_all()
        yield made


def pictures_for(preprocessing: Preprocessing, folder: Path) -> tuple[list[Path], np.ndarray]:
    """Return files of pictures that need no resizing, and the same as a network takes them."""
    drawn = np.random.default_rng(3).integers(0, 256, (PICTURES, *preprocessing.size, 3), np.uint8)
    paths = [folder / f"{number}.png" for number in range(PICTURES)]
    for path, pixels in zip(paths, drawn, strict=True):
        Image.fromarray(pixels).save(path)
    mean, deviation = np.float32(preprocessing.mean), np.float32(preprocessing.deviation)
    divisor = np.float32(preprocessing.divide_by)
    inputs = (drawn / divisor - mean) / deviation  # one bit more or less is seen in eight
    if preprocessing.layout == "NCHW":
        inputs = inputs.transpose(0, 3, 1, 2)
    assert inputs.dtype == np.float32
    return paths, inputs


@pytest.mark.parametrize(
    "name",
    [name if name in BY_DAY else pytest.param(name, marks=pytest.mark.nightly) for name in PUSHED],
)
def test_a_device_that_was_pushed_a_file_answers_as_plain_onnx_runtime(
    name: str, fleet: FleetOfModels, tmp_path: Path
) -> None:
    version = fleet.import_file(name)
    fleet.operator("model", "push", str(version), "--yes")
    fleet.until(lambda: fleet.status(DEVICE).active_version == version)
    wanted = taken(name).wanted
    assert wanted.preprocessing.mode == "RGB"
    paths, inputs = pictures_for(wanted.preprocessing, tmp_path)
    expected = plain(name, inputs, wanted.output)
    found = fleet.answers(paths, len(wanted.class_names))
    np.testing.assert_allclose(found, expected, atol=ROUNDED.get(name, TOLERANCE))
