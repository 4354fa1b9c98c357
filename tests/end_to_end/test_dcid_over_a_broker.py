"""DCID with real programs: Mosquitto, a coordinator, three sites with torch, two stages.

Sites share images of their own, all but one whose owner forbids it. In the second stage one site is
killed when its logits have counted, and comes back into the phase that its round is in by then. At
the end all sites run the general model, and what the coordinator trained can be made again from
what its ledger names.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from fleetledger.coordinator.core.work import AverageRound
from fleetledger.coordinator.ledger.blobs import Blobs, BlobStore
from fleetledger.coordinator.ledger.reader import LedgerReader
from fleetledger.coordinator.models.network_maker import NetworkMaker
from fleetledger.coordinator.paths import blob_folder, ledger_path
from fleetledger.coordinator.topics.contributions.entries import (
    ContributionAccepted,
    NothingReported,
)
from fleetledger.coordinator.topics.devices.entries import DeviceBorn
from fleetledger.coordinator.topics.lineages.entries import NetworkImported
from fleetledger.coordinator.topics.rounds.entries import RoundOpened, WeightsAveraged
from fleetledger.coordinator.topics.rounds.state import RoundAnswered
from fleetledger.schemas.values import ClassName
from fleetledger.transport.brokers import MosquittoBroker
from tests.end_to_end.process_fleet import put_digits
from tests.end_to_end.training_fleet import EveryTrainingFleet, TrainingFleet, running

pytest.importorskip("sklearn.datasets")
pytestmark = [pytest.mark.torch, pytest.mark.broker, pytest.mark.slow, pytest.mark.timeout(1200)]

SHARING, KILLED, PRIVATE = DEVICES = TrainingFleet.devices
FIRST, SECOND = tuple("01234"), tuple("567")
ROUNDS_PER_STAGE = 2
PHASES = ("share", *("train", "distil") * ROUNDS_PER_STAGE)
SHARED_PER_CLASS = 6
DEADLINE_SECONDS = 90.0
SETTINGS = f"""\
[method]
name = "dcid"

[method.settings]
preset = "dcid-icarl"
evaluation = "head"
network = "resnet8"
epochs = 5
batch = 32
rate = 0.05
shared_set = "devices"
shared_per_class = {SHARED_PER_CLASS}
distil_epochs = 2
distil_rate = 0.001

[rounds]
per_stage = {ROUNDS_PER_STAGE}
deadline_seconds = {DEADLINE_SECONDS}
retention = "all"
keep_weights = "all"
"""
FORBIDDEN = "policy.publish_images = false: this device shares no images; "
ALLOWED = "policy.publish_images = true: in phase 'share' of method 'dcid' images of this device's "


class DcidFleet(TrainingFleet):
    """Three sites with digits; the owner of one does not share images."""

    name = "dcid"
    settings = SETTINGS
    rounds_of_stage = len(PHASES)
    knows = ((1, FIRST, 0.5), (2, (*FIRST, *SECOND), 0.35))

    def begin(self) -> None:
        """Set everything up, start all programs, and import the network."""
        self.make_homes()
        for device in (SHARING, KILLED):
            self.allow(device, "publish_images")
        put_digits(self.folder, self.devices)
        self.start_all()
        self.import_network()

    def learn_the_first_stage(self) -> None:
        self.open_stage(FIRST)
        self.until_measured(1)

    def learn_the_second_stage(self) -> None:
        """Kill a site between DID and DCD, while another one holds its round up."""
        number = len(PHASES) + 2  # after `share` of this stage
        self.open_stage(SECOND)
        self.until(lambda: self.opened(number), pause=0.01)
        self.signal(PRIVATE, signal.SIGSTOP)
        self.until(lambda: KILLED in self.answers(number), pause=0.05)
        self.kill(KILLED)
        self.signal(PRIVATE, signal.SIGCONT)
        self.until(lambda: set(self.answers(number + 1)) == {SHARING, PRIVATE})
        self.start_agent(KILLED)
        self.until_measured(2)


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory, mosquitto: MosquittoBroker) -> Iterator[object]:
    """A fleet that has learned two stages, and whose second site died in between."""
    with running(DcidFleet, tmp_path_factory, mosquitto) as made:
        made.begin()
        made.learn_the_first_stage()
        made.learn_the_second_stage()
        yield made


class TestLikeEveryFleet(EveryTrainingFleet):
    """What holds of every fleet that trains."""


def test_every_phase_is_a_round_in_the_ledger(fleet: DcidFleet) -> None:
    rounds = [body for _, body in fleet.entries(RoundOpened)]
    assert [body.phase for body in rounds] == list(PHASES) * 2
    for body in rounds:
        assert body.follows == (body.number - 1 if body.phase == "distil" else None)
        assert set(body.cohort) == set(DEVICES)


def test_answers_are_images_then_logits_then_weights(fleet: DcidFleet) -> None:
    kinds = {"share": "images", "train": "logits", "distil": "weights"}
    for _, body in fleet.entries(RoundOpened):
        found = {answer.part.payload_kind for answer in fleet.answers(body.number).values()}
        assert found == {kinds[body.phase]}


def test_the_site_whose_owner_forbids_it_shares_nothing_and_trains(fleet: DcidFleet) -> None:
    for number in (1, len(PHASES) + 1):
        assert set(fleet.answers(number)) == {SHARING, KILLED}
        assert fleet.closed(number).failed == (PRIVATE,)
    declined = [(name, body) for name, body in fleet.entries(NothingReported)]
    assert [name for name, _ in declined] == [PRIVATE, PRIVATE]
    assert all(body.nothing.reason.startswith(FORBIDDEN) for _, body in declined)
    assert FORBIDDEN[:40] in fleet.operator("coordinator", "rounds")
    assert FORBIDDEN in fleet.agent("status", PRIVATE)
    assert fleet.said(PRIVATE).index(FORBIDDEN) >= 0
    for device in (SHARING, KILLED):
        assert ALLOWED in fleet.agent("status", device)
        assert ALLOWED in fleet.said(device)
    trained = [body.number for _, body in fleet.entries(RoundOpened) if body.phase != "share"]
    assert all(PRIVATE in fleet.answers(number) for number in trained)


def test_the_shared_set_is_what_two_sites_gave_of_the_new_classes(fleet: DcidFleet) -> None:
    for number, classes in ((1, FIRST), (len(PHASES) + 1, SECOND)):
        for answer in fleet.answers(number).values():
            assert answer.part.samples == {ClassName(name): SHARED_PER_CLASS for name in classes}
        (made,) = [b for _, b in fleet.entries(WeightsAveraged) if b.number == number]
        assert (made.phase, made.unchanged) == ("share", True)
        assert "shared" in made.extras
        opened = fleet.opened(number + 1)
        assert opened is not None
        assert opened.extras["shared"] == made.extras["shared"]


def test_the_site_that_was_killed_between_phases_comes_back_into_the_right_one(
    fleet: DcidFleet,
) -> None:
    train, distil = len(PHASES) + 2, len(PHASES) + 3
    assert set(fleet.answers(train)) == set(fleet.answers(distil)) == set(DEVICES)
    (births,) = [
        [body for name, body in fleet.entries(DeviceBorn) if name == device] for device in [KILLED]
    ]
    assert len(births) == 2
    assert f"round {train}: work 1 is done" in fleet.said(KILLED)
    assert fleet.said(KILLED).count(f"round {train}: work 1 begins") == 1, "it trained once"
    assert fleet.said(KILLED).count(f"round {distil}: work 1 is done") == 1
    closed = fleet.closed(distil)
    assert (closed.reason, closed.missing, closed.failed) == ("everybody answered", (), ())
    assert not any(answer.late for answer in fleet.answers(distil).values())


def test_the_ledger_says_what_a_phase_was(fleet: DcidFleet) -> None:
    number = len(PHASES) + 1
    told = fleet.shown(NothingReported, PRIVATE)
    assert f"Device {PRIVATE} declines round {number}: {FORBIDDEN}" in told
    assert "A round has the phases train, then distil." in fleet.shown(NetworkImported)
    last = fleet.shown(RoundOpened)
    assert "for phase 'distil' from weights" in last
    assert f"going on from what they did in round {2 * len(PHASES) - 1}." in last


def test_what_the_coordinator_made_of_each_phase_can_be_made_again(fleet: DcidFleet) -> None:
    """DAD is training: on the same machine it gives the same weights, to the last bit."""
    (network,) = (body for _, body in fleet.entries(NetworkImported))
    store = BlobStore(blob_folder(fleet.home))
    maker = NetworkMaker(fleet.home, store)
    made = [body for _, body in fleet.entries(WeightsAveraged)]
    assert [body.phase for body in made] == list(PHASES) * 2
    for body in made:
        opened = fleet.opened(body.number)
        assert opened is not None
        inputs = tuple(recorded(fleet, index) for index in body.inputs)
        happened = maker.average(AverageRound(network, opened, inputs)).happening
        assert isinstance(happened, WeightsAveraged), happened
        assert happened.model_copy(update={"seconds": body.seconds}) == body
    distilled = [body for body in made if body.phase == "distil"]
    assert all("DAD on" in " ".join(body.remarks) for body in distilled)
    assert len({body.weights.digest for body in distilled}) == len(distilled)
    assert all({"torch", "torch_cpu"} <= set(body.fingerprint) for body in made)


def test_other_instructions_of_torch_make_nearly_the_same_weights(fleet: DcidFleet) -> None:
    """Another fingerprint, really: sums are equal, what was trained lies within the tolerance."""
    command = "from fleetledger.coordinator.cli.ledger import app; app()"
    finished = subprocess.run(
        [sys.executable, "-c", command, "replay", "--all", "--home", str(fleet.home)],
        env={**os.environ, "ATEN_CPU_CAPABILITY": "default", "ONEDNN_MAX_CPU_ISA": "SSE41"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 0, finished.stdout + finished.stderr
    lines = [line.split("\t") for line in finished.stdout.splitlines()[:-1]]
    assert len(lines) >= len(fleet.averaged())
    assert {line[2] for line in lines} <= {"equal", "within tolerance"}
    elsewhere = [line for line in lines if line[2] == "within tolerance"]
    assert all("phase distil" in what and "torch_cpu " in said for _, what, _, said in elsewhere)


def recorded(fleet: DcidFleet, index: int) -> RoundAnswered:
    """Return an answer as its entry names it; its payload is still there."""
    with LedgerReader.open_read_only(ledger_path(fleet.home)) as ledger:
        (entry,) = ledger.entries(index, index + 1)
        part = ContributionAccepted.model_validate(entry.body).part
        assert Blobs(ledger, BlobStore(blob_folder(fleet.home))).get(part.payload)
    return RoundAnswered(index, part.payload, sum(part.samples.values()))
