"""LGA with real programs: Mosquitto, a coordinator, a proxy, three agents with torch, two tasks.

The coordinator dies between a round's weights and their score, and the proxy is killed too.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from coordinator.core.entries import DeviceBorn, DeviceEvaluated, OldModelChosen, WeightsAveraged
from coordinator.paths import ledger_path
from schemas.envelope import PROXY
from schemas.values import ClassName
from simulator.engines.mqtt.homes import PASSWORD_FILE, write_password
from simulator.engines.mqtt.processes import Children
from tests.end_to_end.process_fleet import ProcessFleet, put_digits
from transport.brokers import MosquittoBroker

pytest.importorskip("torch")
pytest.importorskip("sklearn.datasets")
pytestmark = [pytest.mark.broker, pytest.mark.slow, pytest.mark.timeout(400)]

DEVICES = ("dev-a", "dev-b", "dev-c")
FIRST, SECOND = tuple("01234"), tuple("56789")
ROUNDS_PER_TASK = 3
PREPROCESSING = """\
mode = "L"
size = [8, 8]
mean = [0.5]
deviation = [0.25]
input_name = "image"
"""
SETTINGS = f"""\
[method]
name = "lga"

[method.settings]
network = "resnet8"
epochs = 3
batch = 32
memory = 100
detection = "stage"
reserved = 12
perturbation_steps = 5
inversion_steps = 60

[rounds]
per_stage = {ROUNDS_PER_TASK}
deadline_seconds = 90
proxy_seconds = 90
"""


class Fleet(ProcessFleet):
    """Three devices with digits whose owners let gradients go to a proxy."""

    name = "digits-with-a-proxy"

    @property
    def proxy_home(self) -> Path:
        return self.folder / "proxy"

    def set_up(self) -> None:
        """Make all homes, put pictures in, and start the programs."""
        self.set_up_coordinator(SETTINGS)
        for device in DEVICES:
            self.set_up_agent(device)
            path = self.folder / device / "agent.toml"
            text = path.read_text(encoding="utf-8")
            path.write_text(
                text.replace("publish_gradients = false", "publish_gradients = true"),
                encoding="utf-8",
            )
        put_digits(self.folder, DEVICES)
        write_password(self.proxy_home, self.broker, PROXY)
        access = ("--broker-port", str(self.broker.port), "--password-file", str(PASSWORD_FILE))
        where = ("--home", str(self.proxy_home))
        self.run("coordinator", "proxy-init", "--fleet", self.name, *access, *where)
        self.start_coordinator()
        self.start_proxy()
        for device in DEVICES:
            self.start_agent(device)

    def start_proxy(self) -> None:
        self.start("proxy", "coordinator", "proxy", "--home", str(self.proxy_home))

    def evaluations(self, version: int) -> list[DeviceEvaluated]:
        return [body for _, body in self.entries(DeviceEvaluated) if body.version == version]

    @property
    def chosen(self) -> list[OldModelChosen]:
        return [body for _, body in self.entries(OldModelChosen)]

    def averaged(self) -> set[int]:
        return {body.number for _, body in self.entries(WeightsAveraged)}


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory, mosquitto: MosquittoBroker) -> Iterator[Fleet]:
    """A fleet that has learned two tasks, with two deaths in the second."""
    folder = tmp_path_factory.mktemp("lga")
    (folder / "logs").mkdir()
    mosquitto.add_users([PROXY])
    with Children(folder / "logs") as children:
        made = Fleet(folder, mosquitto, children)
        made.set_up()
        made.until(lambda: len(made.entries(DeviceBorn)) == len(DEVICES))
        described = folder / "digits.toml"
        described.write_text(PREPROCESSING, encoding="utf-8")
        made.operator("model", "import-network", "--preprocessing", str(described))
        made.operator("coordinator", "open-stage", *FIRST)
        made.until(lambda: len(made.evaluations(1)) == len(DEVICES))
        made.until(lambda: len(made.chosen) == ROUNDS_PER_TASK)
        die_between_weights_and_score(made)
        made.until(lambda: len(made.evaluations(2)) == len(DEVICES))
        made.until(lambda: len(made.chosen) == 2 * ROUNDS_PER_TASK)
        yield made


def die_between_weights_and_score(fleet: Fleet) -> None:
    """Open the second stage; after its first round the proxy hangs, and both leaders die."""
    fleet.signal("proxy", signal.SIGSTOP)
    fleet.operator("coordinator", "open-stage", *SECOND)
    fleet.until(lambda: ROUNDS_PER_TASK + 1 in fleet.averaged())
    fleet.kill("coordinator")
    fleet.kill("proxy")
    fleet.start_coordinator()
    fleet.start_proxy()


def test_every_round_is_scored_by_pictures_of_its_task(fleet: Fleet) -> None:
    assert [item.number for item in fleet.chosen] == list(range(1, 2 * ROUNDS_PER_TASK + 1))
    for number, item in enumerate(fleet.chosen):
        assert item.newest is not None, item
        assert item.shifted == (number % ROUNDS_PER_TASK == 0)
        assert item.images >= len(FIRST), item.remarks


def test_the_old_model_is_the_best_of_the_task_before(fleet: Fleet) -> None:
    before, after = fleet.chosen[:ROUNDS_PER_TASK], fleet.chosen[ROUNDS_PER_TASK:]
    assert {item.previous for item in before} == {None}
    winner = before[-1].winner
    assert winner is not None
    assert winner.score == max(item.newest.score for item in before if item.newest)
    for item in after:
        assert item.previous is not None
        assert item.previous.weights.digest == winner.weights


def test_every_device_runs_a_model_that_knows_both_tasks(fleet: Fleet) -> None:
    for version, classes in ((1, FIRST), (2, (*FIRST, *SECOND))):
        for body in fleet.evaluations(version):
            results = [body.results[ClassName(name)] for name in classes]
            right = sum(result.correct for result in results)
            assert right / sum(result.total for result in results) > 0.7, body.results


def test_gradients_are_where_they_belong_and_nothing_is_owed(fleet: Fleet) -> None:
    for device in DEVICES:
        assert "sets of gradients without" not in fleet.agent("status", device)
    assert {item.gradients for item in fleet.chosen} == {len(DEVICES) * len(FIRST)}
    ledger = b"".join(path.read_bytes() for path in ledger_path(fleet.home).parent.glob("*.db*"))
    assert b"old-model.chosen" in ledger
    left = b"".join(path.read_bytes() for path in fleet.proxy_home.glob("proxy.db*"))
    for device in DEVICES:
        assert device.encode() not in left
    assert "blobs fit" in fleet.operator("ledger", "verify")
