"""Rounds of two phases through the whole coordinator, with a device that answers by hand: DCID
without DAD, which needs no torch, on images that both sides make."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from fleetledger.coordinator.core.entry import EntryBody
from fleetledger.coordinator.core.rules import RoundRules, Rules
from fleetledger.coordinator.core.state import State
from fleetledger.coordinator.ledger.blobs import Blobs, BlobStore
from fleetledger.coordinator.ledger.reader import LedgerReader
from fleetledger.coordinator.ledger.verify import verify
from fleetledger.coordinator.models.networks import prepare_network
from fleetledger.coordinator.paths import blob_folder, ledger_path
from fleetledger.coordinator.topics.devices.commands import AdmitDevice
from fleetledger.coordinator.topics.lineages.commands import ImportNetwork
from fleetledger.coordinator.topics.models.entries import ModelExported
from fleetledger.coordinator.topics.rounds.entries import RoundOpened, WeightsAveraged
from fleetledger.coordinator.topics.rounds.prunings import Prunings
from fleetledger.coordinator.topics.stages.entries import StageClosed
from fleetledger.learning.numerics.weights import WeightGrid
from fleetledger.methods.dcid.assignment import ENSEMBLE
from fleetledger.methods.dcid.logits import LogitFrame
from fleetledger.methods.dcid.messages import decode_ensemble, encode_logits
from fleetledger.methods.dcid.model import Beginning
from fleetledger.methods.registry import training_coordinator
from fleetledger.schemas.assignments import Assignment
from fleetledger.schemas.contributions import Nothing, PayloadKind
from fleetledger.schemas.presence import Welcome
from fleetledger.schemas.receipts import Accepted, Receipt, Refused
from fleetledger.schemas.rounds import RoundAnswer
from fleetledger.schemas.tensors import encode_tensors
from fleetledger.schemas.values import DeviceId
from fleetledger.transport.memory import InMemoryBroker
from tests.coordinator.core.round_bench import ABLE
from tests.coordinator.round_answers import answer, asked
from tests.coordinator.shell_harness import MemoryCoordinator, ScriptedDevice, write_home

IMAGES = 6
CLASSES = ("circle", "square")
RULES = Rules(rounds=RoundRules(per_stage=2, gather_seconds=0, pause_seconds=0.05, quorum=1.0))
LOGITS = np.arange(IMAGES * len(CLASSES), dtype=np.float32).reshape(IMAGES, len(CLASSES))


class Desk:
    """A coordinator that can die, and a device that stays."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.broker = InMemoryBroker()
        write_home(
            folder,
            "dcid",
            network="mlp",
            dad=False,
            evaluation="head",
            shared_set="synthetic",
            synthetic_images=IMAGES,
        )
        self.coordinator = MemoryCoordinator(folder, self.broker, RULES)
        self.coordinator.command(AdmitDevice(device=DeviceId("dev-1")))
        self.device = ScriptedDevice("dev-1", self.broker, self.coordinator)
        self.device.born(ABLE)
        self.device.wait_for(Welcome)
        network = prepare_network(folder, folder / "pixels.json")
        self.coordinator.command(ImportNetwork(network=network))
        self.coordinator.open(*CLASSES)
        self.receipts = 0

    @property
    def state(self) -> State:
        return self.coordinator.engine.core.state

    def answer(self, order: Assignment, payload: bytes, kind: PayloadKind) -> Receipt:
        """Answer an order, and return the receipt."""
        assert order.round is not None
        said = RoundAnswer(
            number=order.round.number, phase=order.round.phase, samples=5, steps=1, seconds=0.1
        )
        body = answer(order, payload, method="dcid", payload_kind=kind, round=said)
        self.device.send(body, payload)
        self.receipts += 1
        return self.device.wait_for(Receipt, self.receipts)

    def train(self, order: Assignment) -> Receipt:
        frame = LogitFrame(IMAGES, len(CLASSES), "float16")
        return self.answer(order, encode_logits(frame, LOGITS), "logits")

    def distil(self, order: Assignment) -> Receipt:
        assert order.round is not None
        side = training_coordinator("dcid")
        own = side.read_assignment(order.settings)
        data = self.device.fetch(order.round.weights, self.folder / "fetched")
        names = order.round.class_names
        sent = Beginning(own, data, order.round.weights_class_names, names).sent  # type: ignore[arg-type]
        moved = {name: array + np.float32(0.01) for name, array in sent.items()}
        payload = encode_tensors(WeightGrid.around(sent).encode(moved))
        return self.answer(order, payload, "weights")

    def next_order(self, number: int) -> Assignment:
        return asked(self.device, number)

    def die_and_come_back(self) -> None:
        """End the coordinator without a word, and start it again on the same ledger."""
        self.coordinator.kill()
        self.coordinator = MemoryCoordinator(self.folder, self.broker, RULES)
        self.device._coordinator = self.coordinator

    def told(self, kind: type[EntryBody]) -> list[EntryBody]:
        ledger = self.coordinator.engine.ledger
        return [kind.model_validate(entry.body) for entry in ledger.find(kind)]

    def close(self) -> None:
        self.device.close()
        self.coordinator.close()


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    made = Desk(tmp_path)
    yield made
    made.close()


def test_logits_become_an_ensemble_and_the_weights_stay(desk: Desk) -> None:
    first = desk.next_order(1)
    assert isinstance(desk.train(first).answer, Accepted)
    order = desk.next_order(2)
    assert first.round is not None
    assert order.round is not None
    assert (order.round.phase, order.round.follows) == ("distil", 1)
    assert order.round.weights == first.round.weights
    assert order.round.weights_class_names == ()
    data = desk.device.fetch(order.round.extras[ENSEMBLE], desk.folder / "fetched")
    logits, _ = decode_ensemble(data, IMAGES, len(CLASSES))
    np.testing.assert_array_equal(logits, LOGITS)
    (made,) = desk.told(WeightsAveraged)
    assert isinstance(made, WeightsAveraged)
    assert (made.phase, made.unchanged, made.class_names) == ("train", True, ())


def test_a_stage_of_two_rounds_ends_as_a_model_and_a_ledger_that_verifies(desk: Desk) -> None:
    for number in range(1, 5):
        order = desk.next_order(number)
        taken = desk.train(order) if number % 2 else desk.distil(order)
        assert isinstance(taken.answer, Accepted)
    desk.coordinator.until(lambda: ModelExported.kind in desk.coordinator.kinds())
    made = desk.told(WeightsAveraged)
    assert [body.phase for body in made if isinstance(body, WeightsAveraged)] == [
        *("train", "distil", "train", "distil")
    ]
    (closed,) = desk.told(StageClosed)
    assert isinstance(closed, StageClosed)
    assert closed.reason == "4 rounds"
    with LedgerReader.open_read_only(ledger_path(desk.folder)) as reader:
        report = verify(
            reader, Blobs(reader, BlobStore(blob_folder(desk.folder))), prunings=Prunings()
        )
    assert report.ok, str(report)


def test_an_answer_of_another_kind_than_its_phase_is_refused(desk: Desk) -> None:
    order = desk.next_order(1)
    frame = LogitFrame(IMAGES, len(CLASSES), "float16")
    refused = desk.answer(order, encode_logits(frame, LOGITS), "weights").answer
    assert isinstance(refused, Refused)
    assert "with 'dcid' devices give logits in phase 'train'" in refused.reason


def test_a_coordinator_that_dies_between_phases_goes_on_with_the_next_one(desk: Desk) -> None:
    desk.train(desk.next_order(1))
    desk.coordinator.until(lambda: WeightsAveraged.kind in desk.coordinator.kinds())
    before = len(desk.told(RoundOpened))
    desk.die_and_come_back()
    assert desk.state.rounds.by_number[1].averaged
    order = desk.next_order(2)
    assert order.round is not None
    assert (order.round.phase, order.round.follows) == ("distil", 1)
    assert before <= len(desk.told(RoundOpened)) == 2
    assert isinstance(desk.distil(order).answer, Accepted)
    desk.coordinator.until(lambda: len(desk.told(WeightsAveraged)) == 2)
    assert desk.state.rounds.weights is not None
    assert desk.state.rounds.weights.class_names == CLASSES
    assert ENSEMBLE not in desk.state.rounds.weights.extras


def test_a_phase_that_nobody_can_carry_out_begins_the_round_again(desk: Desk) -> None:
    desk.train(desk.next_order(1))
    order = desk.next_order(2)
    assert order.round is not None
    reason = "memory: nothing of round 1 is left here to go on from"
    desk.device.send(Nothing(stage=1, round=2, reason=reason))
    again = desk.next_order(3)
    assert again.round is not None
    assert (again.round.phase, again.round.follows) == ("train", None)
    assert again.round.round_of_stage == 1
    assert again.round.extras == {}
    desk.receipts += 1
    desk.train(again)
    last = desk.next_order(4)
    assert last.round is not None
    assert (last.round.phase, last.round.follows) == ("distil", 3)
