"""Rounds as an operator leads them: Mosquitto, a coordinator and two agents, each a process."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from fleetledger.coordinator.topics.contributions.entries import ContributionAccepted
from fleetledger.coordinator.topics.rounds.entries import RoundOpened
from fleetledger.schemas.envelope import INLINE_LIMIT
from fleetledger.transport.brokers import MosquittoBroker
from tests.coordinator.reports import of_home
from tests.end_to_end.process_fleet import put_digits
from tests.end_to_end.training_fleet import EveryTrainingFleet, TrainingFleet, running

pytest.importorskip("sklearn.datasets")
pytestmark = [
    *(pytest.mark.torch, pytest.mark.broker, pytest.mark.timeout(1200)),
    # By day programs train by rounds in simulator/engines/mqtt/test_rounds.py, and one is killed in
    # them in test_dcid_over_a_broker.py.
    pytest.mark.nightly,
]

FIRST, SECOND = tuple("01234"), tuple("56789")
KILLED = "dev-b"
ROUNDS_PER_STAGE = 2
ROUNDS = f"""
[rounds]
per_stage = {ROUNDS_PER_STAGE}
deadline_seconds = 90
"""
METHOD = """\
[method]
name = "rounds"

[method.settings]
preset = "fedavg-exemplars"
network = "resnet8"
epochs = 3
batch = 32
"""


class Fleet(TrainingFleet):
    """Two devices with digits, led as docs/rounds.md says."""

    devices = ("dev-a", KILLED)
    settings = METHOD + ROUNDS
    rounds_of_stage = ROUNDS_PER_STAGE
    knows = ((1, FIRST, 0.7), (2, (*FIRST, *SECOND), 0.6))


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory, mosquitto: MosquittoBroker) -> Iterator[Fleet]:
    """A fleet that has learned two stages; an agent was killed in a round of the second."""
    with running(Fleet, tmp_path_factory, mosquitto) as made:
        made.make_homes()
        put_digits(made.folder, made.devices)
        made.start_all()
        made.import_network()
        made.open_stage(FIRST)
        made.until_measured(1)
        kill_in_a_round(made)
        made.until_measured(2)
        yield made


def kill_in_a_round(fleet: Fleet) -> None:
    """Open the second stage; one agent hangs when it is asked, is killed, and starts again."""
    fleet.signal(KILLED, signal.SIGSTOP)
    fleet.open_stage(SECOND)
    number = ROUNDS_PER_STAGE + 1
    fleet.until(lambda: set(fleet.answers(number)) == set(fleet.devices) - {KILLED})
    fleet.kill(KILLED)
    fleet.start_agent(KILLED)
    fleet.until(lambda: KILLED in fleet.answers(number))


class TestLikeEveryFleet(EveryTrainingFleet):
    """What holds of every fleet that trains."""


def test_the_killed_agent_answered_its_round_and_the_rounds_after_it(fleet: Fleet) -> None:
    rows = of_home.rounds(fleet.home)
    assert [(row.asked, row.counted, row.missing) for row in rows] == [(2, 2, 0)] * len(rows)


def test_weights_travelled_in_blocks(fleet: Fleet) -> None:
    for _, answer in fleet.entries(ContributionAccepted):
        assert answer.part.payload_bytes > INLINE_LIMIT
    for _, opened in fleet.entries(RoundOpened):
        assert opened.weights.size > INLINE_LIMIT


def test_the_operator_and_the_owner_see_rounds(fleet: Fleet) -> None:
    assert "2 rounds; 2 of 2 devices answered" in fleet.operator("coordinator", "stages")
    said = fleet.agent("status", KILLED)
    assert f"round {2 * ROUNDS_PER_STAGE} is answered" in said
