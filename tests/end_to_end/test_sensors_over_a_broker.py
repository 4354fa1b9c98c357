"""Sensors as an operator leads them: Mosquitto, a coordinator and two agents, each a process.

Each device has one file of windows per activity. Their frozen network is an ONNX file of the
operator's own, of one-dimensional convolutions, and STSA learns in two stages.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import numpy as np
import pytest

from fleetledger.coordinator.core.state_fold import state_of
from fleetledger.coordinator.ledger.reader import ledger_of
from fleetledger.coordinator.topics.contributions.entries import ContributionAccepted
from fleetledger.export.preprocessing_file import preprocessing_toml
from fleetledger.schemas.arrays import ArrayPreprocessing
from fleetledger.simulator.backbones.rocket import rocket_onnx
from fleetledger.simulator.datasets.sensors import ACTIVITIES, make_sensors
from fleetledger.simulator.engines.mqtt.processes import Children
from fleetledger.transport.brokers import MosquittoBroker
from tests.end_to_end.process_fleet import ProcessFleet

pytestmark = [pytest.mark.broker, pytest.mark.timeout(600)]

DEVICES = ("left-wrist", "right-wrist")
FIRST, SECOND = tuple(ACTIVITIES)[:3], tuple(ACTIVITIES)[3:]
TRAIN, TEST, MOMENTS = 60, 20, 64
SETTINGS = """\
[stages]
quiet_seconds = 1

[models]
solve_every_seconds = 1

[method]
name = "stsa"

[method.settings]
form = "exact"
map_width = 256
"""
SENSOR = ArrayPreprocessing(mode="array", shape=(6, MOMENTS), input_name="window")


class Fleet(ProcessFleet):
    """Two devices that wear a sensor."""

    name = "sensors"

    def deal(self, names: tuple[str, ...]) -> None:
        """Have windows of activities come to both, a file for each, half of them to each."""
        split = make_sensors(None, 3, train=TRAIN, test=TEST, people=6)
        for name in names:
            label = tuple(ACTIVITIES).index(name)
            train, test = (part.arrays[part.labels == label] for part in (split.train, split.test))
            for number, device in enumerate(DEVICES):
                windows = train[number::2]
                self.put(device, "data", name, windows[:-1])
                self.put(device, "data", name, windows[-1], "alone")
                self.put(device, "data", name, windows[:3], "again")
                self.put(device, "evaluation", name, test)

    def put(
        self, device: str, part: str, name: str, windows: np.ndarray, file: str = "windows"
    ) -> None:
        folder = self.folder / device / part / name
        folder.mkdir(parents=True, exist_ok=True)
        np.save(folder / f".{file}.npy", windows)
        (folder / f".{file}.npy").rename(folder / f"{file}.npy")

    def wear(self, device: str) -> None:
        """Make a device's home, whose samples are windows."""
        self.set_up_agent(device)
        path = self.folder / device / "agent.toml"
        text = path.read_text(encoding="utf-8")
        after = text.replace('samples = "pictures"', f'samples = "array"\nshape = [6, {MOMENTS}]')
        assert after != text
        path.write_text(after, encoding="utf-8")

    def import_backbone(self) -> None:
        file = self.folder / "sensor.onnx"
        file.write_bytes(rocket_onnx(SENSOR, seed=5))
        described = file.with_suffix(".toml")
        described.write_text(preprocessing_toml(SENSOR), encoding="utf-8")
        self.operator("model", "import-backbone", str(file), "--preprocessing", str(described))

    def learn(self, names: tuple[str, ...], known: int) -> float:
        """Open a stage; return the accuracy that devices measure of a model of so many classes."""
        self.deal(names)
        self.operator("coordinator", "open-stage", *names)
        self.until(lambda: self.measured(known) is not None)
        accuracy = self.measured(known)
        assert accuracy is not None
        return accuracy

    def measured(self, known: int) -> float | None:
        """Return the share of right answers on both devices by a model of everything they gave."""
        with ledger_of(self.home) as ledger:
            state = state_of(ledger)
        newest = state.models.newest
        if self.samples() < TRAIN * known or newest is None or newest.exported is None:
            return None
        if not state.contributions.unchanged_since(newest.solved.ledger_size):
            return None
        found = self.evaluations(newest.exported.version)
        if [len(each.results) for each in found] != [known] * len(DEVICES):
            return None
        results = [result for each in found for result in each.results.values()]
        return sum(one.correct for one in results) / sum(one.total for one in results)

    def samples(self) -> int:
        """Return how many samples are in the newest revisions of parts."""
        accepted = self.entries(ContributionAccepted)
        parts = {(device, body.part.key): body.part for device, body in accepted}
        return sum(sum(part.samples.values()) for part in parts.values())


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory, mosquitto: MosquittoBroker) -> Iterator[Fleet]:
    folder = tmp_path_factory.mktemp("sensors")
    (folder / "logs").mkdir()
    with Children(folder / "logs") as children:
        mosquitto.add_users(DEVICES)
        made = Fleet(folder, mosquitto, children)
        made.set_up_coordinator(SETTINGS)
        made.import_backbone()
        for device in DEVICES:
            made.wear(device)
        made.start_coordinator()
        for device in DEVICES:
            made.start_agent(device)
        yield made


def test_a_fleet_of_sensors_learns_two_stages(fleet: Fleet) -> None:
    first = fleet.learn(FIRST, len(FIRST))
    both = fleet.learn(SECOND, len(ACTIVITIES))
    print(f"accuracy on devices: {first:.1%} of 3 activities, {both:.1%} of 6")  # noqa: T201
    assert first > 0.85
    assert both > 0.7
    # Each window is counted once, though files hold three of them again.
    assert fleet.samples() == TRAIN * len(ACTIVITIES)


def test_the_owner_asks_the_model_about_a_file_and_about_a_row_of_it(fleet: Fleet) -> None:
    file = fleet.folder / DEVICES[0] / "evaluation" / FIRST[0] / "windows.npy"
    told = json.loads(fleet.agent("predict", DEVICES[0], str(file), f"{file}#3", "--json"))
    assert len(told["predictions"]) == TEST + 1
    assert told["predictions"][3] == told["predictions"][-1]
    said = fleet.agent("doctor", DEVICES[0])
    assert "arrays in 6 class folders" in said
