"""Rounds as an operator leads them: Mosquitto, a coordinator and three agents, each a process."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from coordinator.topics.contributions.entries import ContributionAccepted
from coordinator.topics.devices.entries import DeviceBorn
from coordinator.topics.rounds import views as round_views
from coordinator.topics.rounds.entries import RoundOpened
from schemas.envelope import INLINE_LIMIT
from simulator.engines.mqtt.processes import Children
from tests.end_to_end.process_fleet import ProcessFleet, put_digits
from transport.brokers import MosquittoBroker

pytest.importorskip("torch")
pytest.importorskip("sklearn.datasets")
pytestmark = [pytest.mark.broker, pytest.mark.timeout(1200)]

DEVICES = ("dev-a", "dev-b", "dev-c")
FIRST, SECOND = tuple("01234"), tuple("56789")
KILLED = "dev-b"
ROUNDS_PER_STAGE = 4
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


class Fleet(ProcessFleet):
    """Three devices with digits, led as docs/rounds.md says."""

    def set_up(self) -> None:
        """Make all homes, put pictures in, and start the programs."""
        self.set_up_coordinator(METHOD + ROUNDS)
        for device in DEVICES:
            self.set_up_agent(device)
        put_digits(self.folder, DEVICES)
        self.start_coordinator()
        for device in DEVICES:
            self.start_agent(device)


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory, mosquitto: MosquittoBroker) -> Iterator[Fleet]:
    """A fleet that has learned two stages; an agent was killed in a round of the second."""
    folder = tmp_path_factory.mktemp("rounds")
    (folder / "logs").mkdir()
    with Children(folder / "logs") as children:
        made = Fleet(folder, mosquitto, children)
        made.set_up()
        made.until(lambda: len(made.entries(DeviceBorn)) == len(DEVICES))
        made.import_network()
        made.operator("coordinator", "open-stage", *FIRST)
        made.until(lambda: len(made.evaluations(1)) == len(DEVICES))
        kill_in_a_round(made)
        made.until(lambda: len(made.evaluations(2)) == len(DEVICES))
        yield made


def kill_in_a_round(fleet: Fleet) -> None:
    """Open the second stage; one agent hangs when it is asked, is killed, and starts again."""
    fleet.signal(KILLED, signal.SIGSTOP)
    fleet.operator("coordinator", "open-stage", *SECOND)
    number = ROUNDS_PER_STAGE + 1

    def answered() -> set[str | None]:
        return {d for d, b in fleet.entries(ContributionAccepted) if b.round == number}

    fleet.until(lambda: answered() == set(DEVICES) - {KILLED})
    fleet.kill(KILLED)
    fleet.start_agent(KILLED)
    fleet.until(lambda: KILLED in answered())


def test_every_device_runs_a_model_that_knows_both_stages(fleet: Fleet) -> None:
    for version, classes in ((1, FIRST), (2, (*FIRST, *SECOND))):
        assert len(fleet.evaluations(version)) == len(DEVICES)
        for body in fleet.evaluations(version):
            results = [body.results[name] for name in classes]
            right = sum(result.correct for result in results)
            assert right / sum(result.total for result in results) > 0.85, body.results


def test_the_killed_agent_answered_its_round_and_the_rounds_after_it(fleet: Fleet) -> None:
    rows = round_views.rounds(fleet.home)
    assert len(rows) == 2 * ROUNDS_PER_STAGE
    assert [(row.asked, row.counted, row.missing) for row in rows] == [(3, 3, 0)] * len(rows)
    assert {row.state for row in rows} == {"averaged"}


def test_weights_travelled_in_blocks(fleet: Fleet) -> None:
    for _, answer in fleet.entries(ContributionAccepted):
        assert answer.payload_bytes > INLINE_LIMIT
    for _, opened in fleet.entries(RoundOpened):
        assert opened.weights.size > INLINE_LIMIT


def test_the_operator_sees_rounds_devices_and_a_ledger_that_verifies(fleet: Fleet) -> None:
    rounds = fleet.operator("coordinator", "rounds")
    assert rounds.count("averaged") == 2 * ROUNDS_PER_STAGE
    assert "4 rounds; 3 of 3 devices answered" in fleet.operator("coordinator", "stages")
    assert "blobs fit" in fleet.operator("ledger", "verify")
    said = fleet.agent("status", KILLED)
    assert f"round {2 * ROUNDS_PER_STAGE} is answered" in said
