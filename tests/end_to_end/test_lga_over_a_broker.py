"""LGA with real programs: Mosquitto, a coordinator, a proxy, three agents, two tasks.

One agent has no torch. The images of the second task come late to another one. And the coordinator
dies between the choice of a round's devices and the score of what they gave, the proxy with it.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from fleetledger.coordinator.paths import ledger_path
from fleetledger.coordinator.topics.contributions.entries import ContributionAccepted
from fleetledger.coordinator.topics.devices.entries import DeviceBorn
from fleetledger.coordinator.topics.models.entries import DeviceEvaluated
from fleetledger.coordinator.topics.proxy.entries import OldModelChosen
from fleetledger.coordinator.topics.rounds.entries import RoundOpened
from fleetledger.runtime.pip_command import pip_install
from fleetledger.schemas.envelope import PROXY
from fleetledger.simulator.engines.mqtt.homes import PASSWORD_FILE, write_password
from fleetledger.transport.brokers import MosquittoBroker
from tests.end_to_end.process_fleet import bring, put_digits
from tests.end_to_end.training_fleet import EveryTrainingFleet, TrainingFleet, running

pytest.importorskip("sklearn.datasets")
pytestmark = [pytest.mark.torch, pytest.mark.broker, pytest.mark.slow, pytest.mark.timeout(1200)]

TRAINING = ("dev-a", "dev-b")
EARLY, LATE, LIGHT = "dev-a", "dev-b", "dev-c"
DEVICES = (*TRAINING, LIGHT)
FIRST, SECOND = tuple("01234"), tuple("56789")
ROUNDS_PER_TASK = 2
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
inversion_steps = 40

[rounds]
per_stage = {ROUNDS_PER_TASK}
deadline_seconds = 90
proxy_seconds = 90
"""


class Fleet(TrainingFleet):
    """Three devices with digits; two train, and let gradients go to a proxy."""

    name = "digits-with-a-proxy"
    devices = (*TRAINING, LIGHT)
    settings = SETTINGS
    rounds_of_stage = ROUNDS_PER_TASK
    knows = ((1, FIRST, 0.6), (2, (*FIRST, *SECOND), 0.5))

    @property
    def proxy_home(self) -> Path:
        return self.folder / "proxy"

    def set_up(self) -> None:
        """Make all homes, put pictures in, and start the programs."""
        self.make_homes()
        for device in DEVICES:
            self.allow(device, "publish_gradients")
        put_digits(self.folder, DEVICES, late=[LATE])
        bring(self.folder, LATE, FIRST)
        write_password(self.proxy_home, self.broker, PROXY)
        access = ("--broker-port", str(self.broker.port), "--password-file", str(PASSWORD_FILE))
        where = ("--home", str(self.proxy_home))
        self.run("coordinator", "proxy-init", "--fleet", self.name, *access, *where)
        self.start_coordinator()
        self.start_proxy()
        for device in TRAINING:
            self.start_agent(device)
        self.start_agent_without_torch(LIGHT)

    def start_proxy(self) -> None:
        self.start("proxy", "coordinator", "proxy", "--home", str(self.proxy_home))

    @property
    def chosen(self) -> list[OldModelChosen]:
        return [body for _, body in self.entries(OldModelChosen)]

    def transitions(self, device: str) -> list[int | None]:
        """Return the rounds in which a device noticed a new task."""
        found = []
        for name, body in self.entries(ContributionAccepted):
            answer = body.part.round
            assert answer is not None
            assert answer.observation is not None
            if name == device and answer.observation.transition:
                found.append(answer.number)
        return found


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory, mosquitto: MosquittoBroker) -> Iterator[Fleet]:
    """A fleet that has learned two tasks, with two deaths in the second."""
    mosquitto.add_users([PROXY, LIGHT])
    with running(Fleet, tmp_path_factory, mosquitto) as made:
        made.set_up()
        made.until_there(len(DEVICES))
        made.import_network()
        made.open_stage(FIRST)
        made.until_measured(1)
        made.until(lambda: len(made.chosen) == ROUNDS_PER_TASK)
        die_between_selection_and_score(made)
        made.until_measured(2)
        made.until(lambda: len(made.chosen) == 2 * ROUNDS_PER_TASK)
        yield made


def die_between_selection_and_score(fleet: Fleet) -> None:
    """Open the second stage; in its first round the proxy hangs, and both leaders die.

    Before they are back, the late device has its images of the second task.
    """
    fleet.signal("proxy", signal.SIGSTOP)
    fleet.open_stage(SECOND)
    fleet.until(lambda: ROUNDS_PER_TASK + 1 in fleet.averaged())
    fleet.until(lambda: fleet.status(EARLY).gradients > 0)
    fleet.kill("coordinator")
    fleet.kill("proxy")
    bring(fleet.folder, LATE, SECOND)
    fleet.start_proxy()
    # An order is scored with the gradients that are there or being fetched, and this one's are.
    fleet.until(lambda: fleet.status(EARLY).gradients == 0)
    fleet.start_coordinator()


class TestLikeEveryFleet(EveryTrainingFleet):
    """What holds of every fleet that trains."""


def test_every_round_is_scored_by_pictures_of_its_task(fleet: Fleet) -> None:
    assert [item.number for item in fleet.chosen] == list(range(1, 2 * ROUNDS_PER_TASK + 1))
    for number, item in enumerate(fleet.chosen):
        assert item.answer.newest is not None, item
        assert item.answer.shifted == (number % ROUNDS_PER_TASK == 0)
        assert item.answer.images >= len(FIRST), item.answer.remarks


def test_the_old_model_is_the_best_of_the_task_before(fleet: Fleet) -> None:
    before, after = fleet.chosen[:ROUNDS_PER_TASK], fleet.chosen[ROUNDS_PER_TASK:]
    assert {item.previous for item in before} == {None}
    winner = before[-1].winner
    assert winner is not None
    assert winner.score == max(item.answer.newest.score for item in before if item.answer.newest)
    for item in after:
        assert item.previous is not None
        assert item.previous.weights.digest == winner.weights


def test_the_ledger_tells_in_words_what_was_scored_and_which_model_won(fleet: Fleet) -> None:
    told, last = fleet.shown(OldModelChosen), fleet.chosen[-1]
    assert last.answer.newest is not None
    assert last.winner is not None
    assert last.previous is not None
    assert len(last.answer.scored) == ROUNDS_PER_TASK
    compared = ", ".join(f"round {model.round} {model.score:.3f}" for model in last.answer.scored)
    assert f"scored the model of round {last.number} at {last.answer.newest.score:.3f}" in told
    assert (
        f"Scores of this task: {compared}; the best is that of round {last.winner.round}." in told
    )
    old = f"round {last.previous.round} ({last.previous.weights.digest.short})"
    assert f"Devices in the present task distil from the model of {old}" in told


def test_a_device_whose_images_come_late_notices_late(fleet: Fleet) -> None:
    for device in TRAINING:
        late = device == LATE
        assert fleet.transitions(device) == [1, ROUNDS_PER_TASK + 1 + late]
    first, *rest = fleet.chosen[ROUNDS_PER_TASK:]
    assert first.answer.gradients == (len(TRAINING) - 1) * len(SECOND)
    assert {item.answer.gradients for item in rest} == {len(TRAINING) * len(SECOND)}


def test_a_device_without_torch_says_so_and_runs_what_others_trained(fleet: Fleet) -> None:
    asked = {device for _, body in fleet.entries(RoundOpened) for device in body.cohort}
    assert asked == set(TRAINING)
    told = fleet.agent("status", LIGHT)
    assert f"never asked: torch is not installed; {pip_install('train')}" in told
    assert "version 2" in told
    assert "no torch, so that it trains no network" in fleet.shown(DeviceBorn, LIGHT)
    assert LIGHT in {
        device for device, body in fleet.entries(DeviceEvaluated) if body.evaluation.version == 2
    }


def test_gradients_are_where_they_belong_and_nothing_is_owed(fleet: Fleet) -> None:
    for device in DEVICES:
        assert fleet.status(device).gradients == 0
    ledger = b"".join(path.read_bytes() for path in ledger_path(fleet.home).parent.glob("*.db*"))
    assert b"old-model.chosen" in ledger
    left = b"".join(path.read_bytes() for path in fleet.proxy_home.glob("proxy.db*"))
    for device in DEVICES:
        assert device.encode() not in left
