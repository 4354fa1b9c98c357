"""FedHAF with real programs: Mosquitto, a coordinator, three agents with torch, two tasks.

What goes wrong in a fleet goes wrong here: an agent is cut off and answers late, one joins in the
middle of a task, one is killed while it trains its adapter. At the end every agent runs the
averaged network behind the backbone, in ONNX Runtime.
"""

from __future__ import annotations

import re
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from fleetledger.coordinator.topics.contributions.entries import ContributionAccepted
from fleetledger.coordinator.topics.rounds.entries import RoundClosed, RoundOpened, WeightsAveraged
from fleetledger.device_agent.home.status_file import RoundBytes
from fleetledger.export.scaling_backbone import scaling_backbone
from fleetledger.schemas.models import Preprocessing
from fleetledger.simulator.engines.mqtt.processes import Children
from fleetledger.transport.brokers import MosquittoBroker
from tests.coordinator.reports import of_home
from tests.end_to_end.process_fleet import put_digits
from tests.end_to_end.training_fleet import EveryTrainingFleet, TrainingFleet, running
from tests.transport.relay import Relay

pytest.importorskip("sklearn.datasets")
pytestmark = [
    *(pytest.mark.torch, pytest.mark.broker, pytest.mark.slow, pytest.mark.timeout(1200)),
    pytest.mark.nightly,  # programs of FedHAF by day: simulator/engines/test_same_records.py
]

STRAGGLER, KILLED, JOINER = DEVICES = TrainingFleet.devices
FIRST, SECOND = tuple("01234"), tuple("56789")
ROUNDS_PER_TASK = 4
DEADLINE_SECONDS = 30.0
PREPROCESSING = Preprocessing(
    mode="L", size=(8, 8), mean=(0.5,), deviation=(0.25,), input_name="image"
)
SETTINGS = f"""\
[method]
name = "fedhaf"

[method.settings]
ce_scope = "seen"
ce_rows = "all"
hidden = 256
width = 64
batch = 32
adapter_epochs = 20

[rounds]
per_stage = {ROUNDS_PER_TASK}
deadline_seconds = {DEADLINE_SECONDS}
quorum = 0.5
"""
NOT_IMPORTED = ("torchvision", "timm", "transformers", "onnx")
"""What a device would need to have a backbone in torch, or to export."""


class Line(Relay):
    """A device's line to the broker, which can be down for a while."""

    def __init__(self, port: int) -> None:
        super().__init__("127.0.0.1", port)
        self._up = self._target

    def down(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as nobody:
            self._target = nobody.getsockname()
        self.cut()

    def up(self) -> None:
        self._target = self._up


class FedHafFleet(TrainingFleet):
    """Three devices with digits; the line of one of them can be cut."""

    name = "fedhaf"
    settings = SETTINGS
    rounds_of_stage = ROUNDS_PER_TASK
    knows = ((1, FIRST, 0.9), (2, FIRST, 0.6), (2, SECOND, 0.6))

    def __init__(self, folder: Path, broker: MosquittoBroker, children: Children) -> None:
        super().__init__(folder, broker, children)
        self.line = Line(broker.port)
        self.killed_in = 0
        """The round in which an agent was killed while it trained."""

    def begin(self) -> None:
        """Set everything up, start all but the joiner, and import the backbone's network."""
        self.set_up_coordinator(SETTINGS)
        self.set_up_agent(STRAGGLER, self.line.port)
        self.set_up_agent(KILLED)
        put_digits(self.folder, DEVICES)
        self.start_coordinator()
        for device in (STRAGGLER, KILLED):
            self.start_agent(device)
        self.until_there(2)
        backbone, described = self.folder / "pixels.onnx", self.folder / "digits.json"
        backbone.write_bytes(scaling_backbone(PREPROCESSING))
        described.write_text(PREPROCESSING.model_dump_json())
        self.operator(
            *("model", "import-network", "--preprocessing", str(described)),
            *("--backbone", str(backbone)),
        )

    def learn_the_first_task(self) -> None:
        """Cut the straggler's line while it trains; let another join; mend the line."""
        self.open_stage(FIRST)
        self.until(lambda: "round 1: work 1 begins" in self.said(STRAGGLER), pause=0.01)
        self.line.down()
        self.set_up_agent(JOINER, exemplars="features")
        self.start_agent(JOINER)
        self.until(lambda: self.entries(RoundClosed))
        self.line.up()
        self.until_measured(1)

    def learn_the_second_task(self) -> None:
        """Delete images of the first on one device; kill another while it trains its adapter."""
        for name in FIRST:
            shutil.rmtree(self.folder / JOINER / "data" / name)
        self.open_stage(SECOND)
        self.kill_while_it_trains(ROUNDS_PER_TASK + 1)
        self.until_measured(2)

    def kill_while_it_trains(self, number: int) -> None:
        """Kill an agent in this round, or in a later one if it was done by then."""
        self.until(lambda: f"round {number}: work 2 begins" in self.said(KILLED), pause=0.01)
        self.kill(KILLED)
        was_done = f"round {number}: work 2 is done" in self.said(KILLED)
        self.start_agent(KILLED)
        if was_done:
            self.kill_while_it_trains(number + 1)
        else:
            self.killed_in = number

    def answers_of(self, device: str) -> dict[int, ContributionAccepted]:
        """A device's answers by the round that they are about."""
        found = [body for name, body in self.entries(ContributionAccepted) if name == device]
        return {body.part.round.number: body for body in found if body.part.round is not None}

    def round(self, number: int) -> tuple[RoundOpened, RoundClosed]:
        opened = self.opened(number)
        assert opened is not None
        return opened, self.closed(number)


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory, mosquitto: MosquittoBroker) -> Iterator[object]:
    """A fleet that has learned two tasks, and what went wrong meanwhile."""
    with (
        pytest.MonkeyPatch.context() as patch,
        running(FedHafFleet, tmp_path_factory, mosquitto) as made,
    ):
        # Every import of every program is written into its log.
        patch.setenv("PYTHONPROFILEIMPORTTIME", "1")
        made.begin()
        made.learn_the_first_task()
        made.learn_the_second_task()
        yield made
        made.line.close()


class TestLikeEveryFleet(EveryTrainingFleet):
    """What holds of every fleet that trains."""


def test_the_straggler_answers_late_and_is_left_out(fleet: FedHafFleet) -> None:
    opened, closed = fleet.round(1)
    assert set(opened.cohort) == {STRAGGLER, KILLED}
    assert closed.missing == (STRAGGLER,)
    assert closed.reason.startswith("deadline")
    late = fleet.answers_of(STRAGGLER)[1]
    assert late.late
    (_, averaged) = fleet.entries(WeightsAveraged)[0]
    assert averaged.samples == sum(fleet.answers_of(KILLED)[1].part.samples.values())
    assert not any(body.late for body in fleet.answers_of(KILLED).values())
    assert 2 * ROUNDS_PER_TASK in fleet.answers_of(STRAGGLER), "it took part again"


def test_who_joins_in_the_middle_of_a_task_is_asked_from_the_next_round_on(
    fleet: FedHafFleet,
) -> None:
    assert JOINER not in fleet.round(1)[0].cohort
    rounds = fleet.answers_of(JOINER).keys()
    assert 1 < min(rounds) <= ROUNDS_PER_TASK
    assert rounds == set(range(min(rounds), 2 * ROUNDS_PER_TASK + 1))


def test_the_agent_that_was_killed_while_it_trained_its_adapter_takes_part(
    fleet: FedHafFleet,
) -> None:
    number = fleet.killed_in
    assert ROUNDS_PER_TASK < number < 2 * ROUNDS_PER_TASK - 1
    assert f"round {number}: work 2 is done" in fleet.said(KILLED)
    # On a busy machine its start may take longer than that round is open.
    mine = {name for name, body in fleet.answers_of(KILLED).items() if not body.late}
    assert mine >= set(range(1, 2 * ROUNDS_PER_TASK + 1)) - {number}


def test_exemplars_kept_as_features_outlive_their_images(fleet: FedHafFleet) -> None:
    last = fleet.answers_of(JOINER)[2 * ROUNDS_PER_TASK]
    assert set(FIRST) <= set(last.part.samples)
    status = fleet.status(JOINER)
    assert (status.exemplars > 20, status.exemplars_as) == (True, "features")
    assert fleet.status(KILLED).exemplars_as == "images"
    said = fleet.agent("status", JOINER)
    assert f"exemplars    {status.exemplars} kept as features; " in said


def test_no_device_has_a_backbone_in_torch(fleet: FedHafFleet) -> None:
    for device in DEVICES:
        imported = set(re.findall(r"^import time:.*\| +(\S+)$", fleet.said(device), re.MULTILINE))
        assert {"torch", "onnxruntime", "fleetledger.learning.training.loop"} <= imported
        assert imported.isdisjoint(NOT_IMPORTED)


def test_the_bytes_of_a_round_are_its_weights_down_and_its_answer_up(fleet: FedHafFleet) -> None:
    quiet = range(fleet.killed_in + 1, 2 * ROUNDS_PER_TASK)
    for device in DEVICES:
        told: dict[int, RoundBytes] = {item.number: item for item in fleet.status(device).rounds}
        down, up = [], []
        for number in quiet:
            answer, (opened, _) = fleet.answers_of(device)[number], fleet.round(number)
            down.append(told[number].bytes_down - opened.weights.size)
            up.append(told[number].bytes_up / answer.part.payload_bytes)
            line = f"round {number:<6} {told[number].bytes_up:,} bytes up, "
            assert line in fleet.agent("status", device)
        # Block lists, requests, receipts, heartbeats; blocks that come late come twice.
        assert all(extra > 0 for extra in down)
        assert min(down) < 40_000
        # The same, and the answer in blocks that are compressed on their way: to 77 % or so.
        assert all(share > 0.7 for share in up)
        assert min(up) < 0.95


def test_the_operator_sees_the_rounds(fleet: FedHafFleet) -> None:
    rows = of_home.rounds(fleet.home)
    assert (rows[0].asked, rows[0].counted, rows[0].missing) == (2, 1, 1)
    for row in rows:
        sizes = [
            fleet.answers_of(device)[row.number].part.payload_bytes
            for device in DEVICES
            if row.number in fleet.answers_of(device)
        ]
        assert row.weights_bytes == fleet.round(row.number)[0].weights.size
        assert row.answers_bytes == sum(sizes)


def test_an_owner_has_exemplars_and_features_deleted_when_the_agent_is_stopped(
    fleet: FedHafFleet,
) -> None:
    with pytest.raises(AssertionError, match="another agent runs here; stop it first"):
        fleet.agent("forget", JOINER, "--yes")
    exemplars = fleet.status(JOINER).exemplars
    fleet.stop(JOINER)
    said = fleet.agent("forget", JOINER, "--yes")
    assert f"what training remembers: {exemplars} exemplars, " in said
    assert not list((fleet.folder / JOINER / "state").glob("features.db*"))
    assert "nothing is kept here" in fleet.agent("forget", JOINER)
